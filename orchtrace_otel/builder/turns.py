"""Turns: each LLM call once, and its tokens on one event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.events import NANO, Events
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.builder.values import UNKNOWN_USAGE, Usage, status, texts, usage, word
from orchtrace_otel.model import Event, Json

_RARE: Final = {
    a.PROMPT_REF: "prompt_ref",
    a.COMPLETION_REF: "completion_ref",
    a.CONTENT_REF: "content_ref",
    a.CAUSALITY: "causality",
    a.POLICY_VERSION: "policy_version",
}
"""What few turns say: keys of their spans, and the fields of `Turn`, whose last ones they are."""

_RARE_KEYS: Final = frozenset(_RARE)
_MAY_BE_UNKNOWN: Final = (
    "agent",
    "instance",
    "model",
    "provider",
    "input_tokens",
    "output_tokens",
    "finish_reason",
)


class Tokens(NamedTuple):
    """What a run's turns used, as far as they say."""

    known: int
    turns_without_usage: int


def count(events: Events, turns: Sequence[SpanRecord], stop: Event) -> Tokens:
    """Put each turn's tokens on one event, and write the turns down on the stop."""
    if not events.claims.keys() <= events.tree.by_id.keys():
        events.flags.add("missing_turns")
    known = unknown = 0
    written: list[Json] = []
    outer, inside = _nested(events, turns)
    for record in outer:
        span_id, used = record.span_id, usage(record)
        claimed_by = events.claims.get(span_id)
        if span_id in inside:
            used, claimed_by = _told(events, inside[span_id], used, claimed_by)
        owner = events.tree.owner(record)
        closing = owner + ".close"
        event_id = claimed_by or (closing if closing in events.keys else stop.id)
        keys = events.keys[event_id]
        if used != UNKNOWN_USAGE:
            tokens = (used[0] or 0) + (used[1] or 0)
            keys["tokens"] = keys.get("tokens", 0) + tokens
            known += tokens
        keys.setdefault("turns", []).append(span_id)
        unknown += None in used
        written.append(_turn(events, record, used, owner, event_id))
    if written:
        events.keys[stop.id]["turn_records"] = written
    return Tokens(known, unknown)


def _nested(
    events: Events, turns: Sequence[SpanRecord]
) -> tuple[list[SpanRecord], dict[str, list[SpanRecord]]]:
    """Return the LLM calls, and further tellers of some by the call's span.

    Two instrumentations of one call nest, and the outer one is the turn; what only
    the inner one knows is taken from there.
    """
    outer: list[SpanRecord] = []
    inside: dict[str, list[SpanRecord]] = {}
    ids = {record.span_id for record in turns}
    known: dict[str, str | None] = {}
    for record in turns:
        around = _outermost(events, record, ids, known)
        if around == record.span_id:
            outer.append(record)
        else:
            inside.setdefault(around, []).append(record)
    return outer, inside


def _told(
    events: Events, tellers: Iterable[SpanRecord], used: Usage, claimed_by: str | None
) -> tuple[Usage, str | None]:
    """Return the usage of a call and the event that claims it, from others where unknown."""
    for teller in tellers:
        if used == UNKNOWN_USAGE:
            used = usage(teller)
        if claimed_by is None:
            claimed_by = events.claims.get(teller.span_id)
    return used, claimed_by


def _outermost(
    events: Events, turn: SpanRecord, ids: set[str], known: dict[str, str | None]
) -> str:
    """Return the outermost turn at or above a turn, within their activation.

    Args:
        events: The events of the run.
        turn: The turn.
        ids: The spans that are turns.
        known: What was found at other spans, which is not looked for again; added to.
    """
    path: dict[str, None] = {}
    at: SpanRecord | None = turn
    while at is not None and a.OPENS not in at.attributes and at.span_id not in known:
        if at.span_id in path:
            events.flags.add("cyclic_parents")
            break
        path[at.span_id] = None
        at = events.tree.parent(at)
    found = None if at is None else known.get(at.span_id)
    for span_id in reversed(path):
        if found is None and span_id in ids:
            found = span_id
        known[span_id] = found
    return found or turn.span_id


def _turn(events: Events, record: SpanRecord, used: Usage, owner: str, event_id: str) -> Json:
    """Return what `Turn` reads, in the order of its fields; to make one first costs far more."""
    found = record.attributes
    holder = events.tree.by_id.get(owner)
    of_agent: Mapping[str, Any] = {} if holder is None else holder.attributes
    reasons = texts(found[a.FINISH_REASONS], events.flags) if a.FINISH_REASONS in found else ()
    turn: Json = {
        "id": record.span_id,
        "activation": owner,
        "agent": word(of_agent, a.AGENT_NAME) or word(found, a.AGENT_NAME),
        "instance": word(of_agent, a.INSTANCE),
        "t": max(record.start - events.origin, 0) / NANO,
        "duration_s": max(record.end - record.start, 0) / NANO,
        "model": word(found, a.RESPONSE_MODEL) or word(found, a.REQUEST_MODEL),
        "provider": word(found, a.PROVIDER),
        "input_tokens": used[0],
        "output_tokens": used[1],
        "finish_reason": reasons[0] if reasons else None,
        "status": status(record),
        "event": event_id,
    }
    if not _RARE_KEYS.isdisjoint(found):
        turn |= {name: said for key, name in _RARE.items() if (said := word(found, key))}
    for name in _MAY_BE_UNKNOWN:
        if turn[name] is None:
            del turn[name]
    return turn
