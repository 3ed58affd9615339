"""Turns: each LLM call once, and its tokens on one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.events import NANO, Events
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.builder.tree import Tree
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


class Tokens(NamedTuple):
    """What a run's turns used, as far as they say."""

    known: int
    turns_without_usage: int


class _Call(NamedTuple):
    """An LLM call, however many instrumentations told of it."""

    record: SpanRecord
    usage: Usage
    claimed_by: str | None


def count(events: Events, turns: Sequence[SpanRecord], stop: Event) -> Tokens:
    """Put each turn's tokens on one event, and write the turns down on the stop."""
    if not events.claims.keys() <= events.tree.by_id.keys():
        events.flags.add("missing_turns")
    known = unknown = 0
    written: list[Json] = []
    for call in _calls(events, turns):
        owner = events.tree.owner(call.record)
        closing = owner + ".close"
        event_id = call.claimed_by or (closing if closing in events.keys else stop.id)
        tokens = sum(number for number in call.usage if number is not None)
        keys = events.keys[event_id]
        if call.usage != UNKNOWN_USAGE:
            keys["tokens"] = keys.get("tokens", 0) + tokens
        keys.setdefault("turns", []).append(call.record.span_id)
        known += tokens
        unknown += None in call.usage
        written.append(_turn(events, call, owner, event_id))
    if written:
        events.keys[stop.id]["turn_records"] = written
    return Tokens(known, unknown)


def _calls(events: Events, turns: Sequence[SpanRecord]) -> list[_Call]:
    """Return each LLM call once, its usage, and the event that claims it.

    Two instrumentations of one call nest, and the outer one is the turn; what only
    the inner one knows is taken from there.
    """
    inside: dict[str, list[SpanRecord]] = {}
    outer: list[SpanRecord] = []
    ids = {record.span_id for record in turns}
    for record in turns:
        around = _turn_around(events.tree, record, ids)
        if around is None:
            outer.append(record)
        else:
            inside.setdefault(around, []).append(record)
    return [_call(events, record, inside.get(record.span_id, ())) for record in outer]


def _call(events: Events, record: SpanRecord, inside: Sequence[SpanRecord]) -> _Call:
    said, claimed_by = usage(record), events.claims.get(record.span_id)
    for teller in inside:
        if said == UNKNOWN_USAGE:
            said = usage(teller)
        if claimed_by is None:
            claimed_by = events.claims.get(teller.span_id)
    return _Call(record, said, claimed_by)


def _turn_around(tree: Tree, record: SpanRecord, ids: set[str]) -> str | None:
    """Return the outermost turn around a turn, within their activation."""
    found = None
    holder = tree.parent(record)
    for _ in range(len(tree.by_id)):
        if holder is None or a.OPENS in holder.attributes:
            break
        if holder.span_id in ids:
            found = holder.span_id
        holder = tree.parent(holder)
    return found


def _turn(events: Events, call: _Call, owner: str, event_id: str) -> Json:
    """Return what `Turn` reads, in the order of its fields; to make one first costs far more."""
    record, found = call.record, call.record.attributes
    holder = events.tree.by_id.get(owner)
    of_agent: Mapping[str, Any] = {} if holder is None else holder.attributes
    reasons = texts(found, a.FINISH_REASONS, events.flags)
    turn: Json = {
        "id": record.span_id,
        "activation": owner,
        "agent": word(of_agent, a.AGENT_NAME) or word(found, a.AGENT_NAME),
        "instance": word(of_agent, a.INSTANCE),
        "t": events.seconds(record.start),
        "duration_s": max(record.end - record.start, 0) / NANO,
        "model": word(found, a.RESPONSE_MODEL) or word(found, a.REQUEST_MODEL),
        "provider": word(found, a.PROVIDER),
        "input_tokens": call.usage[0],
        "output_tokens": call.usage[1],
        "finish_reason": reasons[0] if reasons else None,
        "status": status(record),
        "event": event_id,
    }
    if not _RARE.keys().isdisjoint(found):
        turn |= {name: word(found, key) for key, name in _RARE.items()}
    return {key: value for key, value in turn.items() if value is not None}
