"""A trace in one row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from orchtrace_otel.cli._columns import aligned, widths_of
from orchtrace_otel.cli._console import clean
from orchtrace_otel.cli._outline import seconds
from orchtrace_otel.rewards.records import is_builtin_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchtrace_otel.model import Trace


@dataclass(frozen=True, slots=True)
class Summary:
    """What one row says.

    Attributes:
        number: Which trace of its file it is; the first is 1.
        run_id: Id of the run.
        system: What the team runs on.
        team: Name of the team; of its task, where the trace does not name the team.
        events: How many.
        agents: How many names.
        edges: How many, mere order in time aside.
        tokens: Known sum.
        speed_up: Work by makespan, where known.
        rewards: Component and value of each that somebody gave, the built-in ones aside.
        stop: Why the run stopped.
    """

    number: int
    run_id: str
    system: str
    team: str
    events: int
    agents: int
    edges: int
    tokens: float
    speed_up: float | None
    rewards: dict[str, float]
    stop: str


def agents_of(trace: Trace) -> set[str]:
    """Name the agents of a trace; `user`, who only asks, is none."""
    openings = {event.get("to") or event.agent for event in trace.events if _opens(event.id)}
    tools = {event.get("tool") for event in trace.events}
    names = {event.agent for event in trace.events} - tools
    return {name for name in names | openings if isinstance(name, str)} - {"user"}


def _opens(event_id: str) -> bool:
    return event_id.endswith(".open")


def team_of(trace: Trace) -> str:
    """Return the name of the team: of the agent whose activation is the run's first."""
    first = trace.events[0]
    to = first.get("to")
    return str(to) if first.verb == "begin" and isinstance(to, str) else trace.task_id


def given_rewards(trace: Trace) -> dict[str, float]:
    """Return the rewards of the run but for those that the trace tells by itself."""
    run = trace.trace_id
    ours = {one.component for one in trace.reward_records if is_builtin_id(one.id, run)}
    return {name: value for name, value in trace.rewards.items() if name not in ours}


def summarise(trace: Trace, number: int) -> Summary:
    """Sum a trace up."""
    stop = trace.stop
    metrics = trace.metrics or {}
    return Summary(
        number=number,
        run_id=trace.trace_id,
        system=trace.system or "-",
        team=team_of(trace),
        events=len(trace.events),
        agents=len(agents_of(trace)),
        edges=sum(edge.type != "temporal" for edge in trace.edges),
        tokens=seconds(trace.costs.get("tokens")),
        speed_up=metrics.get("speed_up"),
        rewards=given_rewards(trace),
        stop=str(stop.get("stop_reason", "-")) if stop is not None else "-",
    )


def number_of(value: float) -> str:
    """Write a number for people.

    Example:
        >>> number_of(0.1 + 0.2), number_of(1200), number_of(2.0)
        ('0.3', '1,200', '2')
    """
    try:
        number = float(value)
    except OverflowError:
        return "> 1e308" if value > 0 else "< -1e308"
    if number.is_integer() and abs(number) < 1e15:  # noqa: PLR2004 - then digits get lost
        return f"{int(number):,}"
    return f"{number:.4g}"


def counted(number: int, noun: str) -> str:
    """Write how many there are of something.

    Example:
        >>> counted(1, "run"), counted(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


_NUMBERS: Final = ("events", "agents", "edges", "tokens", "speed-up")
_LONGEST_TEAM: Final = 24


def table(summaries: Sequence[Summary], width: int) -> Iterator[Text]:
    """Lay rows out as a table; rewards and the stop go below each row where it is narrow."""
    cells = [_cells(row) for row in summaries]
    heads = ("#", "team", "system", *_NUMBERS)
    widths = widths_of([heads, *cells])
    tails = [_tail(row) for row in summaries]
    across = sum(widths) + 2 * len(widths)
    is_wide = across + max(tail.cell_len for tail in tails) <= width
    yield _line(heads, widths, "bold").append("stopped" if is_wide else "", style="bold")
    for row, tail in zip(cells, tails, strict=True):
        line = _line(row, widths, "")
        yield line.append_text(tail) if is_wide else line
        if not is_wide:
            yield Text(" " * (widths[0] + 2) + "stopped ").append_text(tail)


def _cells(row: Summary) -> tuple[str, ...]:
    return (
        str(row.number),
        clean(row.team, longest=_LONGEST_TEAM),
        clean(row.system, longest=_LONGEST_TEAM),
        f"{row.events:,}",
        f"{row.agents:,}",
        f"{row.edges:,}",
        number_of(row.tokens),
        "-" if row.speed_up is None else f"{row.speed_up:.2f}x",
    )


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    right = {0, *range(3, len(cells))}
    return Text(f"{aligned(cells, widths, right)}  ", style=style)


def _tail(row: Summary) -> Text:
    """Say why a run stopped and what it was worth."""
    text = Text(clean(row.stop), style=stop_style(row.stop))
    for name, value in row.rewards.items():
        text.append(f"  reward {clean(name)} {number_of(value)}", style="dim")
    return text


_FINE: Final = frozenset({"information_complete", "quality_met", "verified", "handoff"})
_FAILED: Final = frozenset({"error", "deadlock", "loop"})


def stop_style(reason: str) -> str:
    """Return the style in which a stop reason is shown."""
    return "green" if reason in _FINE else "bold red" if reason in _FAILED else "yellow"
