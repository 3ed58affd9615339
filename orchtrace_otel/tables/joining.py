"""Which reward belongs to which LLM call: joined by explicit ids, never by order of time.

A reward names its unit and its target. A turn earns it when the target is the turn, or
an event that this turn alone led to (the event's `turns`). Where several turns led to
the event nobody said which of them earned it, so none does; credit, which is divided
anyway, is split among them by their tokens. What an agent, a role or
the team earned is kept apart from what a turn did: it is not the turn's alone. Agents
and roles are told apart, for many an agent is called like its role.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from orchtrace_otel.model import ESTIMATORS, records_of
from orchtrace_otel.rewards.credit.turns import split_by_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchtrace_otel.model import Event, Json, Trace

_FIELDS: Final = (
    "id",
    "component",
    "value",
    "family",
    "unit",
    "target",
    "estimator",
    "provisional",
    "n",
    "se",
    "version",
)
_WHOLE: Final = Fraction(1)
_OF_EVENTS: Final = frozenset({"token", "turn", "message", "tool_call"})
_OF_NAMES: Final = frozenset({"agent", "role", "orchestrator"})
_TRUST: Final = {
    name: place
    for place, name in enumerate(("outcome", "replay", "judge", "model", "structural", *ESTIMATORS))
}
"""Which estimator counts where several speak of the same: what was measured first."""


class Key(NamedTuple):
    """What a reward speaks of."""

    component: str
    unit: str
    target: str | None


class Name(NamedTuple):
    """Who a reward of several turns is for: `unit` is `agent`, `role` or `orchestrator`."""

    unit: str
    name: str


@dataclass(slots=True)
class Joined:
    """The rewards of a run, and what each LLM call earned.

    Attributes:
        rows: Rows of the rewards table, without their run and place.
        of_turn: Turn id to component to value.
        of_event: Event id to component to value.
        of_agent: Agent, role or orchestrator by its name, to component to value.
        of_run: Component to value, of the team; of an orchestrator without a name where the
            team has none of the component.
        credit: Turn id to component to its share of the run's rewards.
        contradictory: Id of a turn or event, name, or None for the team, to components
            whose final values differ: they count for nothing.
    """

    rows: list[Json] = field(default_factory=list["Json"])
    of_turn: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    of_event: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    of_agent: defaultdict[Name, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    of_run: dict[str, float] = field(default_factory=dict[str, float])
    credit: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "dict[str, float]"])
    contradictory: defaultdict[str | Name | None, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )


def are_records(value: object) -> bool:
    """Whether a key of a stop holds records, which have tables of their own."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, dict) for item in cast("Sequence[object]", value))


def join(trace: Trace) -> Joined:
    """Put every reward of a run where it was earned."""
    joined = Joined()
    turn_of = _turns_by_target(trace)
    for record in records_of(trace.stop, "reward_records"):
        joined.rows.append(_row(record, turn_of))
    for event in trace.events:
        if "rewards" in event.keys or "credit" in event.keys:
            _take_event(joined, event, turn_of)
    joined.credit = _credit(trace)
    settled = settle(row for row in joined.rows if row["source"] != "credit")
    # What an orchestrator without a name earned is the run's where the team has none.
    for key in sorted(settled, key=lambda key: key.unit == "team"):
        _place(joined, key, settled[key], turn_of)
    disagreeing = joined.contradictory.get(None, ())
    for component, value in trace.rewards.items():
        number = _number(value)
        if component not in disagreeing and number is not None:
            joined.of_run.setdefault(component, number)
    return joined


def given(trace: Trace) -> set[str]:
    """Return the components of rewards that somebody gave a run: none is computed from it alone.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> given(Trace("run", "task", (), rewards={"task": 1.0}))
        {'task'}
    """
    records = records_of(trace.stop, "reward_records")
    found = {str(record.get("component")) for record in records if is_given(record)}
    untold = trace.rewards.keys() - {record.get("component") for record in records}
    if untold:  # of traces of others: what only their events have besides is computed, too
        held = (event.get("rewards") for event in trace.events if "rewards" in event.keys)
        untold -= {name for one in held if isinstance(one, dict) for name in cast("Json", one)}
    return found | untold


def is_given(record: Json) -> bool:
    """Whether somebody gave a reward, and no formula of its trace alone."""
    return record.get("estimator") != "structural"


def _turns_by_target(trace: Trace) -> dict[str, str]:
    """Each id that a reward may name, to the one turn that it leads to."""
    found: dict[str, str] = {}
    for event in trace.events:
        turns = event.keys.get("turns")
        if not turns or not isinstance(turns, list | tuple):
            continue
        ids = cast("Sequence[object]", turns)
        if len(ids) == 1:
            turn = str(ids[0])
            found[event.id] = turn
            # A tool's call and its result are the ends of one interval.
            if event.type == "tool_call":
                interval = event.id.removesuffix(".open")
                found.setdefault(interval, turn)
                found.setdefault(f"{interval}.close", turn)
    for record in records_of(trace.stop, "turn_records"):
        if isinstance(record.get("id"), str):
            found[record["id"]] = record["id"]
    return found


def _row(record: Json, turn_of: Mapping[str, str]) -> Json:
    row: Json = {
        key: value for key, value in record.items() if key in _FIELDS and value is not None
    }
    extra = {key: value for key, value in record.items() if key not in row}
    if extra:
        row["extra"] = extra
    row["source"] = "record"
    target, unit = row.get("target"), row.get("unit")
    if isinstance(target, str) and isinstance(unit, str) and unit in _OF_EVENTS:
        turn = turn_of.get(target)
        if turn is not None:
            row["turn_id"] = turn
    return row


def _number(value: object) -> float | None:
    """Return a value as a float; None for what is no number, or no float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _take_event(joined: Joined, event: Event, turn_of: Mapping[str, str]) -> None:
    for source in ("event", "credit"):
        held = event.get("rewards" if source == "event" else "credit")
        for component, given in cast("Json", held).items() if isinstance(held, dict) else ():
            value = _number(given)
            if value is None:
                continue
            row: Json = {
                "id": f"{event.id}:{source}:{component}",
                "component": component,
                "value": value,
                "unit": "turn" if event.id in turn_of else "message",
                "target": event.id,
                "source": source,
            }
            if event.id in turn_of:
                row["turn_id"] = turn_of[event.id]
            joined.rows.append(row)


def _tokens(record: Json) -> tuple[str, int | None]:
    counts = record.get("input_tokens"), record.get("output_tokens")
    known = [count for count in counts if isinstance(count, int) and count >= 0]
    return str(record.get("id")), sum(known) if len(known) == len(counts) else None


def _credit(trace: Trace) -> dict[str, dict[str, float]]:
    """Each turn's credit by method: the sum over the events that it led to, its part of each."""
    tokens: dict[str, int | None] | None = None
    found: dict[str, dict[str, float]] = {}
    for event in trace.events:
        held, turns = event.keys.get("credit"), event.keys.get("turns")
        if not isinstance(held, dict) or not turns or not isinstance(turns, list | tuple):
            continue
        ids = [str(turn) for turn in cast("Sequence[object]", turns)]
        if len(ids) > 1 and tokens is None:
            tokens = dict(map(_tokens, records_of(trace.stop, "turn_records")))
        parts = [_WHOLE] if len(ids) == 1 else split_by_tokens(ids, tokens or {})
        for turn, part in zip(ids, parts, strict=True):
            sums = found.setdefault(turn, {})
            for method, given in cast("Json", held).items():
                share = _number(given)
                if share is not None:
                    sums[method] = sums.get(method, 0.0) + share * float(part)
    return found


def settle(rows: Iterable[Json]) -> dict[Key, float | None]:
    """Return the one value of what each reward speaks of; None where final values differ.

    The last record of an id counts, a final one before a provisional one, and of
    several estimators what was measured before what was judged or modelled.

    Example:
        >>> row = {"component": "task", "unit": "team", "estimator": "outcome"}
        >>> settle([{**row, "id": "a", "value": 1.0}, {**row, "id": "b", "value": 0.0}])
        {Key(component='task', unit='team', target=None): None}
    """
    latest: dict[Any, Json] = {}
    for place, row in enumerate(rows):
        given = row.get("id")
        latest[given if isinstance(given, str) else place] = row
    best: dict[Key, tuple[tuple[bool, int], float | None]] = {}
    for row in latest.values():
        value = _number(row.get("value"))
        if value is None:
            continue
        target = row.get("target")
        named = None if target is None else str(target)
        key = Key(str(row.get("component")), str(row.get("unit", "team")), named)
        rank = (row.get("provisional") is True, _TRUST.get(str(row.get("estimator")), len(_TRUST)))
        known = best.get(key)
        if known is None or rank < known[0]:
            best[key] = (rank, value)
        elif rank == known[0] and known[1] != value:
            best[key] = (rank, value if rank[0] else None)
    return {key: value for key, (_, value) in best.items()}


def _place(joined: Joined, key: Key, value: float | None, turn_of: Mapping[str, str]) -> None:
    where: str | Name | None = None
    into = joined.of_run
    if key.unit in _OF_EVENTS:
        if key.target is None:
            return  # it names nobody
        turn = turn_of.get(key.target)
        where = turn or key.target
        into = joined.of_turn[turn] if turn else joined.of_event[key.target]
        if value is not None and turn:
            joined.of_event[key.target][key.component] = value
    elif key.unit in _OF_NAMES and (key.target is not None or key.unit != "orchestrator"):
        where = Name(key.unit, key.target or "")
        into = joined.of_agent[where]
    if value is None:
        joined.contradictory[where].append(key.component)
        into.pop(key.component, None)
    else:
        into[key.component] = value
