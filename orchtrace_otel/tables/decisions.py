"""Rows of the decisions table: what offline learning needs of each decision."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.tables.turns import places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Event, Json, Trace
    from orchtrace_otel.tables.joining import Joined

_ACTIONS: Final = frozenset(
    {"spawn", "despawn", "delegate", "message", "aggregate", "stop", "decide"}
)
_COPIED: Final = ("instance", "activation", "name", "decision", "decision_point", "tokens", "turns")


def decision_rows(trace: Trace, joined: Joined, run_id: str) -> list[Json]:
    """Return the run's decisions in order of time.

    A decision's state is what came before it: the task, the place in the code, and
    every decision so far with who made it and what it chose. Two runs with the same
    `state_hash` stood at the same point, as far as the trace tells.
    """
    where = places(trace)
    rows: list[Json] = []
    state = hashlib.sha256(_bytes(trace.task_id))
    for event in trace.events:
        if event.verb not in _ACTIONS:
            continue
        row = _row(trace, event, joined, run_id)
        role = event.get("role") if event.verb != "spawn" else None
        place = where.get(str(event.get("activation", "")))
        role = place.role if place is not None and role is None else role
        if role is not None:
            row["role"] = role
        here = state.copy()
        here.update(_bytes("at", event.agent, event.get("name"), event.get("decision_point")))
        row["state_hash"] = here.hexdigest()[:32]
        row["index"] = len(rows)
        state.update(_bytes(event.verb, event.agent, event.get("to"), event.get("chosen")))
        rows.append(row)
    if rows:
        rows[-1]["done"] = True
        _add_to_go(rows, trace, joined.of_run)
    return rows


def _bytes(*parts: Any) -> bytes:
    return repr(parts).encode("utf-8", "backslashreplace")


def _row(trace: Trace, event: Event, joined: Joined, run_id: str) -> Json:
    row: Json = {
        "run_id": run_id,
        "task_id": trace.task_id,
        "group_id": trace.task_id,
        "id": event.id,
        "t": event.t,
        "agent": event.agent,
        "action": event.verb,
        "done": False,
    }
    row.update({key: event[key] for key in _COPIED if event.get(key) is not None})
    given = {
        "target": event.get("to"),
        "chosen": _texts(event.get("chosen")),
        "legal_actions": _texts(event.get("candidates")),
        "features": event.get("features"),
        "answer_now": event.get("answer_now"),
        "behavior_prob": event.get("behavior_prob"),
        "policy_version": event.get("policy_version"),
        "rewards": joined.of_event.get(event.id),
    }
    row.update({key: value for key, value in given.items() if value is not None})
    return row


def _texts(value: object) -> Any:
    return [value] if isinstance(value, str) else value


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
        tokens = event.get("tokens", 0)
        if isinstance(tokens, int | float) and math.isfinite(total + _as_float(tokens)):
            total += _as_float(tokens)
        found[event.id] = total
    return found


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
