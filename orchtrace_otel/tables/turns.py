"""Rows of the turns table: what each LLM call was, where it stands, and what it earned."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from orchtrace_otel.model import Turn, records_of
from orchtrace_otel.tables.joining import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Event, Json, Trace
    from orchtrace_otel.tables.joining import Joined

TURN_FIELDS: Final = frozenset(field.name for field in fields(Turn))
_CARRIED: Final = frozenset({"response_id", "token_provenance", "sampling"})
"""What a turn's record may say beyond `Turn`, and a column holds."""
CUT: Final = frozenset(
    {
        *("length", "max_tokens", "MAX_TOKENS", "model_length"),
        *("max_output_tokens", "model_context_window_exceeded"),
    }
)
"""Finish reasons, in the words of the providers, that say a limit cut the completion."""
_NAMES: Final = (
    ("role", "role"),
    ("orchestrator", "agent"),
    ("agent", "agent"),
    ("agent", "instance"),
)
"""Units of rewards and the column of a turn that their target names, the wider first."""


class Place(NamedTuple):
    """Where an activation stands."""

    role: str | None
    parent_agent: str | None


def places(trace: Trace) -> dict[str, Place]:
    """Return each activation's role, and the agent whose activation it is inside of."""
    agents: dict[str, str] = {}
    openings: list[Event] = []
    for event in trace.events:
        if not event.id.endswith(".open"):
            continue
        activation = event.keys.get("activation")
        if not isinstance(activation, str) or event.id != f"{activation}.open":
            continue
        agents[activation] = str(event.get("to", event.agent))
        openings.append(event)
    return {
        event["activation"]: Place(
            _word(event.get("role")), agents.get(str(event.get("parent", "")))
        )
        for event in openings
    }


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def turn_rows(trace: Trace, joined: Joined, where: Mapping[str, Place], run_id: str) -> list[Json]:
    """Return the run's turns in the order of their records, which is that of their start."""
    records = records_of(trace.stop, "turn_records")
    if not records:
        return []
    events = {event.id: event for event in trace.events}
    of_run: Json = {
        "run_id": run_id,
        "task_id": trace.task_id,
        "group_id": trace.task_id,
        "episode_id": episode_of(trace),
        "done": False,
    }
    seen: Counter[Any] = Counter()
    rows: list[Json] = []
    for index, record in enumerate(records):
        is_plain = TURN_FIELDS.issuperset(record) and None not in record.values()
        row = {**(record if is_plain else _split(record)), **of_run}
        instance = row.get("instance") or row.get("agent")
        row["index"] = index
        row["agent_index"] = seen[instance]
        seen[instance] += 1
        _add_place(row, where.get(row.get("activation", "")))
        _add_event(row, events.get(row.get("event", "")))
        _add_rewards(row, joined)
        _add_numbers(row)
        rows.append(row)
    _add_ends(rows)
    _add_returns(rows, joined.of_run)
    return rows


def episode_of(trace: Trace) -> str:
    """Return the run that this one goes on from, where its first event says so; else its own id."""
    links = trace.events[0].get("links") if trace.events else None
    if isinstance(links, list | tuple) and links and isinstance(links[0], dict):
        run = cast("Json", links[0]).get("run")
        if isinstance(run, str):
            return run
    return trace.trace_id


def _split(record: Json) -> Json:
    known = TURN_FIELDS | _CARRIED
    row = {key: value for key, value in record.items() if key in known and value is not None}
    extra = {key: value for key, value in record.items() if key not in row}
    return {**row, "extra": extra} if extra else row


def _add_place(row: Json, place: Place | None) -> None:
    branch = row.get("instance") or row.get("activation")
    if branch is not None:
        row["branch_id"] = branch
    if place is not None:
        if place.role is not None:
            row["role"] = place.role
        if place.parent_agent is not None:
            row["parent_agent"] = place.parent_agent


def _add_event(row: Json, event: Event | None) -> None:
    if event is None:
        return
    row["verb"] = event.verb
    for key in ("decision", "behavior_prob"):
        if key in event.keys:
            row[key] = event.keys[key]


def _add_rewards(row: Json, joined: Joined) -> None:
    turn = row.get("id", "")
    own = joined.of_turn.get(turn)
    if own:
        row["rewards"] = own
        if "advantage" in own:
            row["advantage"] = own["advantage"]
    if joined.of_run:
        row["run_rewards"] = joined.of_run
    if turn in joined.credit:
        row["credit"] = joined.credit[turn]
    of_agent = _of_agent(row, joined) if joined.of_agent else None
    if of_agent:
        row["agent_rewards"] = of_agent
    disagreeing = _disagreeing(row, joined) if joined.contradictory else None
    if disagreeing:
        row["contradictory"] = disagreeing


def _add_numbers(row: Json) -> None:
    read, written = row.get("input_tokens"), row.get("output_tokens")
    if isinstance(read, int | float) and isinstance(written, int | float):  # others may err
        row["cost"] = read + written
    version = row.get("policy_version")
    if isinstance(version, str | int):
        row["policy_version_min"] = row["policy_version_max"] = str(version)
    if "finish_reason" in row:
        row["truncated"] = row["finish_reason"] in CUT


def _of_agent(row: Json, joined: Joined) -> dict[str, float]:
    """Return the rewards of a call's agent: the nearer name wins over the wider one."""
    return {
        key: value
        for name in _names(row)
        if name in joined.of_agent
        for key, value in joined.of_agent[name].items()
    }


def _names(row: Json) -> list[Name]:
    """Who a call's agent is, the wider name first; an agent may well be called like its role."""
    known = ((unit, row.get(key)) for unit, key in _NAMES)
    return [Name(unit, name) for unit, name in known if isinstance(name, str)]


def _disagreeing(row: Json, joined: Joined) -> list[str]:
    """Return the components whose nearest rewards disagree: a wider one does not stand in."""
    found: set[str] = set()
    held_by: list[tuple[str | Name | None, Mapping[str, float]]] = [
        (None, joined.of_run),
        *((name, joined.of_agent.get(name, {})) for name in _names(row)),
        (row.get("id"), joined.of_turn.get(row.get("id", ""), {})),
    ]
    for place, held in held_by:
        found = found.difference(held).union(joined.contradictory.get(place, ()))
    return sorted(found)


def _add_ends(rows: list[Json]) -> None:
    last: dict[Any, Json] = {}
    for row in rows:
        last[row.get("instance") or row.get("agent")] = row
    for row in last.values():
        row["done"] = True


def _add_returns(rows: list[Json], of_run: Mapping[str, float]) -> None:
    to_go: dict[str, float] = dict(of_run)
    for row in reversed(rows):
        own: Mapping[str, float] = row.get("rewards", {})
        if own:
            to_go = {**to_go, **{name: to_go.get(name, 0.0) + own[name] for name in own}}
        if to_go:
            row["return"] = to_go
