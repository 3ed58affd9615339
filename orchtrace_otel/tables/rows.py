"""A trace to the rows of the six tables: plain dicts of the columns that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_otel.model import records_of
from orchtrace_otel.tables.columns import EVENTS, VERSION
from orchtrace_otel.tables.decisions import decision_rows
from orchtrace_otel.tables.joining import Joined, are_records, join
from orchtrace_otel.tables.turns import episode_of, places, turn_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchtrace_otel.model import Event, Json, Trace

ALL: Final = ("events", "edges", "turns", "rewards", "decisions")
"""The tables that a run has any number of rows in."""

_OWN_TABLES: Final = frozenset({"turn_records", "reward_records"})
_OF_EVENT: Final = frozenset(column.name for column in EVENTS) - {"extra", "run_id", "index"}
_OWN_COSTS: Final = frozenset({"tokens", "wall_clock_s", "tool_calls", "messages"})
_OF_STOP: Final = ("status", "stop_reason", "stop_detail", "revision", "flags")


class Rows(NamedTuple):
    """One run in the six tables; a key that is absent is unknown."""

    run: Json
    events: list[Json]
    edges: list[Json]
    turns: list[Json]
    rewards: list[Json]
    decisions: list[Json]


def rows_of(trace: Trace, only: Iterable[str] = ALL) -> Rows:
    """Put one run into rows.

    Args:
        trace: The run.
        only: Tables that are wanted besides `runs`; the others stay empty, which saves
            their time.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> stop = Event("s", 0.5, "orchestrator_decision", "lead", {"verb": "stop", "why": "?"})
        >>> rows = rows_of(Trace("r", "q", (stop,), costs={"tokens": 3, "wall_clock_s": 0.5}))
        >>> rows.run["tokens"], rows.events[0]["extra"]
        (3, {'why': '?'})
    """
    wanted = frozenset(only)
    run_id = _joinable(trace.trace_id)
    joined = join(trace) if wanted & {"turns", "rewards", "decisions"} else None
    where = places(trace) if wanted & {"turns", "decisions"} else {}
    return Rows(
        _run(trace, run_id),
        _events(trace, run_id) if "events" in wanted else [],
        _edges(trace, run_id) if "edges" in wanted else [],
        turn_rows(trace, joined, where, run_id) if joined and "turns" in wanted else [],
        _rewards(joined, run_id) if joined and "rewards" in wanted else [],
        decision_rows(trace, joined, where, run_id) if joined and "decisions" in wanted else [],
    )


def _joinable(run_id: str) -> str:
    """Return a run's id as a text that every column can hold."""
    return run_id.encode("utf-8", "backslashreplace").decode()


def _run(trace: Trace, run_id: str) -> Json:
    first = trace.events[0] if trace.events else None
    stop = trace.stop
    row: Json = {
        "run_id": run_id,
        "task_id": trace.task_id,
        "episode_id": episode_of(trace),
        "rewards": dict(trace.rewards),
        "costs": {name: cost for name, cost in trace.costs.items() if name not in _OWN_COSTS},
        "agents": sorted({event.agent for event in trace.events} - {"user"}),
        "weight": weight_of(first),
        "event_count": len(trace.events),
        "edge_count": len(trace.edges),
        "turn_count": len(records_of(stop, "turn_records")),
        "version": VERSION,
    }
    row.update({name: cost for name, cost in trace.costs.items() if name in _OWN_COSTS})
    given = {"system": trace.system, "topology": trace.topology, "metrics": trace.metrics}
    if first is not None:
        given["task_ref"] = first.get("content_ref") if first.verb == "begin" else None
        given["start_unix_nano"] = first.get("start_unix_nano")
        given["tags"] = first.get("tags")
    if stop is not None:
        given.update({name: stop.get(name) for name in _OF_STOP})
    row.update({name: value for name, value in given.items() if value is not None})
    if run_id != trace.trace_id:
        row["extra"] = {"trace_id": trace.trace_id}
    return row


def weight_of(first: Event | None) -> float:
    """Return how many runs this one stands for, where the first event says so; else 1."""
    weight = None if first is None else first.get("weight")
    return weight if isinstance(weight, int | float) and weight > 0 else 1.0


def _events(trace: Trace, run_id: str) -> list[Json]:
    rows: list[Json] = []
    stop = trace.stop
    for index, event in enumerate(trace.events):
        keys = event.keys
        is_plain = _OF_EVENT.issuperset(keys) and None not in keys.values()
        row: Json = {
            "run_id": run_id,
            "index": index,
            "id": event.id,
            "t": event.t,
            "type": event.type,
            "agent": event.agent,
            **(keys if is_plain else _spread(keys, is_stop=event is stop)),
        }
        rows.append(row)
    return rows


def _spread(keys: Mapping[str, Any], *, is_stop: bool) -> Json:
    row: Json = {}
    extra: Json = {}
    for key, value in keys.items():
        if key in _OF_EVENT and value is not None:
            row[key] = value
        elif not (is_stop and key in _OWN_TABLES and are_records(value)):
            extra[key] = value
    return {**row, "extra": extra} if extra else row


def _edges(trace: Trace, run_id: str) -> list[Json]:
    return [
        {"run_id": run_id, "index": index, "src": edge.src, "dst": edge.dst, "type": edge.type}
        for index, edge in enumerate(trace.edges)
    ]


def _rewards(joined: Joined, run_id: str) -> list[Json]:
    return [{"run_id": run_id, "index": index, **row} for index, row in enumerate(joined.rows)]
