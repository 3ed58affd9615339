"""Documents of the schema as the tests write them down, and what `check` says of them."""

from __future__ import annotations

from typing import Any

from orchtrace_otel import schema


def event(identity: str = "e", t: float = 0, **keys: Any) -> dict[str, Any]:
    """An event of a document."""
    return {"id": identity, "t": t, "type": "spawn", "agent": "a", **keys}


def document(*events: dict[str, Any], edges: tuple[str, ...] = (), **keys: Any) -> dict[str, Any]:
    """A document; edges are written `a>b`, or `a>b:type`."""
    ends = [(*edge.partition(":")[0].split(">"), edge.partition(":")[2]) for edge in edges]
    return {
        "trace_id": "r",
        "task_id": "q",
        "events": list(events) or [event()],
        "edges": [{"src": src, "dst": dst, "type": kind or "causal"} for src, dst, kind in ends],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 0},
        **keys,
    }


def found(source: object) -> list[str]:
    """What `check` says, as text."""
    return [str(fault) for fault in schema.check(source)]
