"""What an exporter of finished traces is, and how one is found by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from orchtrace_otel.errors import NO_METADATA, ConfigError
from orchtrace_otel.model import Reward, Trace

GROUP: Final = "orchtrace.exporter"


@runtime_checkable
class TraceExporter(Protocol):
    """Takes finished traces to one destination.

    All methods are called on the pipeline's own thread, never on the host's, so they
    may block for a while; what they raise is counted and warned of once.
    """

    def export(self, trace: Trace) -> None:
        """Take one finished trace."""

    def amend(self, run_id: str, reward: Reward) -> None:
        """Take a reward that came after its run had finished."""

    def flush(self, timeout_s: float) -> None:
        """Put down what was taken, within `timeout_s` seconds."""

    def shutdown(self) -> None:
        """Put down what was taken and let go of the destination."""


def dropped_by(exporter: TraceExporter) -> Mapping[str, int]:
    """Return what an exporter lost after `export` had returned, by kind.

    That is its attribute `dropped`, where it has one: who sends on a thread of its own
    cannot raise what it loses there.
    """
    dropped: Any = getattr(exporter, "dropped", None)
    return dict(dropped) if isinstance(dropped, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType]


def waiting_in(exporter: TraceExporter) -> str:
    """Say what an exporter has that is not put down yet, and where it is kept.

    That is its attribute `waiting`, a text; empty where nothing waits, or it does not say.
    """
    waiting: Any = getattr(exporter, "waiting", None)
    return waiting if isinstance(waiting, str) else ""


def open_exporter(spec: str) -> Any:
    """Open the exporter that `"name:target"` names, such as `jsonl:traces/`.

    Returns:
        A `TraceExporter`, or an exporter of spans of the OpenTelemetry SDK.

    Raises:
        ConfigError: If no installed exporter has that name.
        MissingDependencyError: If its library is not installed.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, rarely needed

    name, _, target = spec.partition(":")
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = f"one of the names {', '.join(sorted(found))}" if found else "a name"
        before, mark, _ = spec.partition("://")  # behind it there may be a password
        came = f"{before}{mark}..." if mark else spec
        msg = f"exporters need the form 'name:target' with {known}, got {came!r}"
        if not found:
            msg = f"{msg}; {NO_METADATA}"
        raise ConfigError(msg)
    return found[name].load()(target)
