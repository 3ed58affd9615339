"""Rows of the decisions table: what offline learning needs of each decision."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Event, Json, Trace
    from orchtrace_otel.tables.joining import Joined
    from orchtrace_otel.tables.turns import Place

_ACTIONS: Final = frozenset(
    {"spawn", "despawn", "delegate", "message", "aggregate", "stop", "decide"}
)
_POINT: Final = frozenset({"decision_point", "features", "answer_now", "stop_probability"})
"""Keys of which an event has one where the run could have stopped there."""
_COLUMNS: Final = {"to": "target", "candidates": "legal_actions"} | {
    key: key
    for key in (
        *("instance", "activation", "name", "decision", "chosen", "decision_point"),
        *("features", "behavior_prob", "policy_version", "turns", "tokens", "answer_now"),
    )
}
"""Keys of an event that have a column, and its name."""


def decision_rows(
    trace: Trace, joined: Joined, where: Mapping[str, Place], run_id: str
) -> list[Json]:
    """Return the run's decisions in order of time.

    A decision's state is what came before it: the task, the place in the code, and
    every decision so far with who made it and what it chose. Two runs with the same
    `state_hash` stood at the same point, as far as the trace tells.
    """
    rows: list[Json] = []
    points: list[tuple[Json, Event]] = []
    state = hashlib.sha256(_bytes(trace.task_id))
    for event in trace.events:
        verb, keys = event.verb, event.keys
        is_point = not keys.keys().isdisjoint(_POINT)
        if verb not in _ACTIONS and not is_point:
            continue
        here = state.copy()
        here.update(_bytes("at", event.agent, keys.get("name"), keys.get("decision_point")))
        state.update(_bytes(verb, event.agent, keys.get("to"), keys.get("chosen")))
        row: Json = {
            "run_id": run_id,
            "task_id": trace.task_id,
            "group_id": trace.task_id,
            "index": len(rows),
            "id": event.id,
            "t": event.t,
            "agent": event.agent,
            "action": verb,
            "state_hash": here.hexdigest()[:32],
            "done": False,
        }
        _add_keys(row, keys)
        _add_role(row, keys, where)
        rewards = joined.of_event.get(event.id)
        if rewards:
            row["rewards"] = rewards
        if is_point:
            points.append((row, event))
        rows.append(row)
    _add_points(points)
    if rows:
        rows[-1]["done"] = True
        _add_to_go(rows, trace, joined.of_run)
    return rows


def _bytes(*parts: Any) -> bytes:
    return repr(parts).encode("utf-8", "backslashreplace")


def _add_keys(row: Json, keys: Mapping[str, Any]) -> None:
    for key, value in keys.items():
        if key in _COLUMNS and value is not None:
            row[_COLUMNS[key]] = value
    for name in ("chosen", "legal_actions"):
        if isinstance(row.get(name), str):
            row[name] = [row[name]]


def _add_role(row: Json, keys: Mapping[str, Any], where: Mapping[str, Place]) -> None:
    place = where.get(str(keys.get("activation", "")))
    # A spawn's own role is that of whom it spawned.
    is_own = place is None and row["action"] != "spawn"
    role = keys.get("role") if is_own else None if place is None else place.role
    if role is not None:
        row["role"] = role


def _add_points(points: Sequence[tuple[Json, Event]]) -> None:
    """Say at each point where the run could have stopped what it did: the last is where it did.

    A decision that is such a point chose something else as well: how likely the run was to
    stop there is not the chance of that.
    """
    for row, event in points:
        is_last = row is points[-1][0]
        if row["action"] not in _ACTIONS:
            row["action"] = "stop" if is_last else "continue"
        elif row["action"] != "stop":
            continue
        chance = event.keys.get("stop_probability")
        if isinstance(chance, int | float) and "behavior_prob" not in row:
            row["behavior_prob"] = chance if is_last else 1 - chance


def _add_to_go(rows: Sequence[Json], trace: Trace, of_run: Mapping[str, float]) -> None:
    rewards: dict[str, float] = dict(of_run)
    spent = _tokens_after(trace)
    end = _as_float(trace.events[-1].t)
    for row in reversed(rows):
        own: Mapping[str, float] = row.get("rewards", {})
        if own:
            rewards = {**rewards, **{name: rewards.get(name, 0.0) + own[name] for name in own}}
        if rewards:
            row["reward_to_go"] = rewards
        row["cost_to_go"] = spent[row["id"]]
        row["seconds_to_go"] = end - _as_float(row["t"])


def _tokens_after(trace: Trace) -> dict[str, float]:
    """Each event's tokens and those of all later ones."""
    total = 0.0
    found: dict[str, float] = {}
    for event in reversed(trace.events):
        tokens = event.keys.get("tokens")
        if tokens:
            total = _sum(total, tokens)
        found[event.id] = total
    return found


def _sum(total: float, tokens: object) -> float:
    """Return a sum; what is no number, or would make it infinite, counts for nothing."""
    if not isinstance(tokens, int | float):
        return total
    more = total + _as_float(tokens)
    return more if math.isfinite(more) else total


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
