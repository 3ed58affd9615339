"""Rows of the tables back to the trace they were made from.

Everything in the trace document comes back equal, numbers as they were spelled (2 or
2.0); only the order of keys is lost. What the tables add to it (joined rewards,
what is to go) is derived, and left out.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.tables.columns import EVENTS
from orchtrace_otel.tables.turns import TURN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchtrace_otel.model import Json
    from orchtrace_otel.tables.rows import Rows

_EVENT_KEYS: Final = frozenset(column.name for column in EVENTS) - {
    "run_id",
    "index",
    "id",
    "t",
    "type",
    "agent",
    "extra",
}
_MUST: Final = ("id", "t", "type", "agent")
_COSTS: Final = ("tokens", "wall_clock_s", "tool_calls", "messages")
_REWARD_PLACE: Final = frozenset({"run_id", "index", "source", "turn_id", "extra"})
_place: Final = itemgetter("index")


def trace_of(rows: Rows) -> Trace:
    """Return the trace that `rows_of` made these rows from.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> from orchtrace_otel.tables.rows import rows_of
        >>> trace = Trace("r", "q", (Event("e", 0, "spawn", "lead", {"colour": None}),),
        ...               costs={"tokens": 0, "wall_clock_s": 1})
        >>> trace_of(rows_of(trace)) == trace
        True
    """
    run = {**rows.run, **rows.run.get("extra", {})}
    events = [_event(row) for row in sorted(rows.events, key=_place)]
    if events:
        events[-1] = _with_records(events[-1], rows)
    return Trace(
        trace_id=run.get("trace_id", run["run_id"]),
        task_id=run["task_id"],
        events=tuple(events),
        edges=tuple(_edge(row) for row in sorted(rows.edges, key=_place)),
        rewards=run.get("rewards", {}),
        costs={**{key: run[key] for key in _COSTS if key in run}, **run.get("costs", {})},
        system=run.get("system"),
        topology=run.get("topology"),
        metrics=run.get("metrics"),
    )


def _event(row: Json) -> Event:
    keys = {key: row[key] for key in row.keys() & _EVENT_KEYS}
    extra = dict(row.get("extra", {}))
    event = {**row, **{name: extra.pop(name) for name in _MUST if name in extra}}
    return Event(event["id"], event["t"], event["type"], event["agent"], {**keys, **extra})


def _edge(row: Json) -> Edge:
    edge = {**row, **row.get("extra", {})}
    return Edge(edge["src"], edge["dst"], edge["type"])


def _with_records(stop: Event, rows: Rows) -> Event:
    turns = [_turn(row) for row in sorted(rows.turns, key=_place)]
    of_record = (row for row in rows.rewards if row["source"] in ("record", "late"))
    rewards = [_reward(row) for row in sorted(of_record, key=_place)]
    held = {"turn_records": turns, "reward_records": rewards}
    keys = {**stop.keys, **{key: value for key, value in held.items() if value}}
    return Event(stop.id, stop.t, stop.type, stop.agent, keys)


def _turn(row: Json) -> Json:
    return _record(row, (key for key in row if key in TURN_FIELDS))


def _reward(row: Json) -> Json:
    return _record(row, (key for key in row if key not in _REWARD_PLACE))


def _record(row: Mapping[str, Any], keys: Iterable[str]) -> Json:
    return {**{key: row[key] for key in keys}, **row.get("extra", {})}
