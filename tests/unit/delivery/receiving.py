"""Exporters that do what a test wants, and a delivery to them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from orchtrace_otel.delivery import Delivery
from orchtrace_otel.finished import Finished
from orchtrace_otel.model import Event, Reward, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 30
"""Seconds that no test waits: a deadline that must not be reached."""


def trace(name: str) -> Trace:
    """A trace with a name."""
    return Trace(name, "task", (Event("e", 0, "spawn", "lead"),))


def finished(name: str) -> Finished:
    """A run of that name that ended, with its trace still to be scored."""
    return Finished(trace(name), (), Counter().update)


class Collected:
    """An exporter that keeps what it takes, and waits for its gate first."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.calls: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_in = threading.Event()

    def export(self, trace: Trace) -> None:
        self.is_in.set()
        self.gate.wait()
        self.taken.append(trace.trace_id)

    def amend(self, run_id: str, reward: Reward) -> None:
        self.taken.append(f"{run_id}:{reward.component}")

    def flush(self, timeout_s: float) -> None:
        self.gate.wait()
        self.calls.append("flush")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


class Broken(Collected):
    """An exporter that fails in whatever it does."""

    def export(self, trace: Trace) -> None:
        raise OSError

    def amend(self, run_id: str, reward: Reward) -> None:
        raise OSError

    def flush(self, timeout_s: float) -> None:
        raise OSError

    def shutdown(self) -> None:
        raise OSError


class Losses(Counter[str]):
    """What was lost, by kind, and why; and what was late."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: set[str] = set()

        self.delays: list[tuple[str, str]] = []

    def lose(self, what: str, count: int = 1, why: str = "") -> None:
        self[what] += count
        self.reasons.add(why)

    def delay(self, what: str, waiting: str) -> None:
        self.delays.append((what, waiting))


def delivery_to(*exporters: Collected, size: int = 10) -> tuple[Delivery, Losses]:
    """A delivery, and the losses that it counts."""
    losses = Losses()
    return Delivery(exporters, size, losses.lose, losses.delay), losses


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another thread brings about."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.001)
