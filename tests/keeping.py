"""An exporter of finished traces for tests."""

from orchtrace_otel.model import Reward, Trace


class Kept:
    """An exporter that keeps what it gets."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.rewards: list[tuple[str, Reward]] = []
        self.shutdowns = 0

    def export(self, trace: Trace) -> None:
        self.traces.append(trace)

    def amend(self, run_id: str, reward: Reward) -> None:
        self.rewards.append((run_id, reward))

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None:
        self.shutdowns += 1
