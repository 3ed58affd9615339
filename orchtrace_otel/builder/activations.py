"""Activations: who was called by whom, when, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.events import BEGIN, OPENING, Events
from orchtrace_otel.builder.keys import CLOSING_KEYS, OF_ACTIVATION, OPENING_KEYS, copy
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.builder.values import status, text
from orchtrace_otel.model import Json

_OPENINGS: Final = frozenset(("begin", "spawn", "delegate"))


def take_activation(events: Events, record: SpanRecord) -> None:
    """Add an activation's opening and, but for the root, whose end is the stop, its closing."""
    found = record.attributes
    span_id = record.span_id
    agent = text(found, a.AGENT_NAME)
    verb = found[a.OPENS]
    if verb.__class__ is not str or verb not in _OPENINGS:
        events.flags.add("garbled")
        verb = "begin"
    is_root = span_id == events.tree.root_id
    keys: Json = {"verb": verb}
    caller = _begin(events, record, keys) if is_root else _hang(events, record, keys)
    if verb == "begin":
        keys["from"] = caller
    events.tree.owners[span_id] = span_id
    keys["to"] = events.agents[span_id] = agent
    closing: Json = {"verb": "return", "from": agent, "to": caller}
    if a.ROLE in found:
        keys["role"] = closing["role"] = str(found[a.ROLE])
    keys["activation"] = closing["activation"] = span_id
    if a.INSTANCE in found:
        keys["instance"] = closing["instance"] = str(found[a.INSTANCE])
    keys["status"] = closing["status"] = "ok"
    opened = span_id + ".open"
    if is_root:
        copy(found, keys, OPENING_KEYS, events.flags)
        events.add(record, BEGIN, opened, caller, keys)
        return
    if record.is_error or not OF_ACTIVATION.isdisjoint(found):
        copy(found, keys, OPENING_KEYS, events.flags)
        closing["status"] = status(record)
        copy(found, closing, CLOSING_KEYS, events.flags)
    events.add(record, OPENING, opened, caller, keys)
    events.add_closing(record, opened, agent, closing)


def _begin(events: Events, record: SpanRecord, keys: Json) -> str:
    """Say when the root began, and the user's tags; return who caused it."""
    keys["start_unix_nano"] = record.start
    tags: Json = {}
    # Sorted, since no sender decides their order.
    for key in sorted(key for key in record.attributes if key.startswith(a.TAG_PREFIX)):
        value = record.attributes[key]
        if isinstance(value, str):
            tags[key.removeprefix(a.TAG_PREFIX)] = value
        else:
            events.flags.add("garbled")
    if tags:
        keys["tags"] = tags
    _weigh(events, record, keys)
    return "user"


def _weigh(events: Events, record: SpanRecord, keys: Json) -> None:
    weight: object = record.attributes.get(a.WEIGHT)
    if weight is None:
        return
    if isinstance(weight, int | float) and 0 < weight < math.inf:
        keys["weight"] = weight
    else:
        events.flags.add("garbled")


def _hang(events: Events, record: SpanRecord, keys: Json) -> str:
    """Say which activation another is inside of; return the agent that caused it."""
    parent = keys["parent"] = events.tree.owner(record)
    caller = events.agents.get(parent)
    if caller is None:
        events.has_unsure_parents = True
        holder = events.tree.by_id.get(parent)
        caller = "unknown" if holder is None else text(holder.attributes, a.AGENT_NAME)
    return str(record.attributes.get(a.BY) or caller)


def cut_cycles(events: Events, span_ids: Iterable[str]) -> None:
    """Hang activations that are above each other below the root instead."""
    keys, root_id = events.keys, events.tree.root_id
    done: set[str] = {root_id}
    for span_id in span_ids:
        path: list[str] = []
        at = span_id
        while at not in done and at + ".open" in keys:
            done.add(at)
            path.append(at)
            at = keys[at + ".open"].get("parent", root_id)
        if at in path:
            events.flags.add("cyclic_parents")
            keys[at + ".open"]["parent"] = root_id
