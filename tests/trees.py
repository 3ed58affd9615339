"""Whole traces as small texts, so that a test compares all of a trace at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as otel_context

from orchtrace_otel import schema
from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.testing import Captured, capture


@contextmanager
def recording(*, deterministic: bool = True) -> Iterator[Captured]:
    """Record a block, and check what must hold of all that is recorded.

    Every span that started ended, once; the caller's context is the very one it was;
    every trace conforms to the schema and lost nothing.
    """
    before = otel_context.get_current()
    with capture(deterministic=deterministic) as captured:
        yield captured
        assert otel_context.get_current() is before
    assert captured.open == {}
    assert captured.ended_twice == []
    assert captured.started == captured.ended
    for trace in captured.traces:
        assert list(schema.check(trace.to_dict())) == []


def tree(trace: Trace) -> str:
    """Draw a trace: a line an event, indented by activation, with its causes behind `<`.

    An activation is called by its instance (`critic#1`, and `critic#1:2` when it works
    again), every other event by its verb or tool, numbered from the second on. The edge
    from an opening to its own closing is always there and never drawn.
    """
    names = _names(trace)
    own = {edge.dst for edge in trace.edges if _is_own(edge)}
    assert own == {event.id for event in trace.events if event.id.endswith(".close")}
    causes: dict[str, list[str]] = {event.id: [] for event in trace.events}
    for edge in trace.edges:
        if not _is_own(edge):
            causes[edge.dst].append(f"{edge.type} {names[edge.src]}")
    depths = _depths(trace)
    lines: list[str] = []
    for event in trace.events:
        indent = "  " * depths[event.id]
        behind = f" < {', '.join(sorted(set(causes[event.id])))}" if causes[event.id] else ""
        lines.append(f"{indent}{_line(event, names)}{behind}")
    return "\n".join(lines)


def edges(trace: Trace) -> set[str]:
    """Return the edges of a trace as `cause -type-> effect`, but for openings to closings."""
    names = _names(trace)
    return {
        f"{names[edge.src]} -{edge.type}-> {names[edge.dst]}"
        for edge in trace.edges
        if not _is_own(edge)
    }


def _is_own(edge: Edge) -> bool:
    """Whether an edge leads from an opening to its own closing."""
    opened, closed = edge.src.removesuffix(".open"), edge.dst.removesuffix(".close")
    return opened == closed and edge.type == "causal"


def _line(event: Event, names: dict[str, str]) -> str:
    text = names[event.id]
    if event.verb in {"begin", "spawn", "delegate"} and event.id.endswith(".open"):
        text = f"{text.removesuffix('.open')} {event.verb}"
        if "role" in event.keys:
            text += f" as {event['role']}"
    elif "to" in event.keys and event.verb != "return":
        text += f" to {event['to']}"
    for key in ("name", "chosen", "candidates", "stop_reason", "stop_detail", "error_type"):
        if key in event.keys:
            text += f" {event[key]}"
    return text if event["status"] == "ok" else f"{text} [{event['status']}]"


def _names(trace: Trace) -> dict[str, str]:
    seen: Counter[str] = Counter()
    stems: dict[str, str] = {}
    names: dict[str, str] = {}
    for event in trace.events:
        stem, _, end = event.id.partition(".")
        if stem not in stems:
            opens = event.id == event["activation"] + ".open"
            base = event["instance"] if opens else event.get("tool", event.verb)
            seen[base] += 1
            stems[stem] = base if seen[base] == 1 else f"{base}:{seen[base]}"
        names[event.id] = f"{stems[stem]}.{end}" if end in {"open", "close"} else stems[stem]
    return names


def _depths(trace: Trace) -> dict[str, int]:
    levels: dict[str, int] = {}
    depths: dict[str, int] = {}
    for event in trace.events:
        owner = event["activation"]
        if event.id == owner + ".open":
            levels[owner] = levels.get(event.get("parent", ""), -1) + 1
            depths[event.id] = levels[owner]
        elif event.id == owner + ".close":
            depths[event.id] = levels[owner]
        else:
            depths[event.id] = levels.get(owner, 0) + 1
    return depths
