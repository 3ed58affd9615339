"""What is no activation: calls of tools, decisions, messages and the like, and the stop."""

from __future__ import annotations

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.events import NANO, OPENING, POINT, Events
from orchtrace_otel.builder.keys import (
    OF_TOOL,
    OPENING_KEYS,
    POINT_KEYS,
    TOOL_CLOSING_KEYS,
    copy,
)
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.builder.values import status, text
from orchtrace_otel.model import VERBS, Event, Json


def take_tool(events: Events, record: SpanRecord) -> None:
    """Add a tool's call and its result."""
    found = record.attributes
    agent = _actor(events, record)
    keys: Json = {"verb": "tool_call", "tool": text(found, a.TOOL_NAME)}
    events.place(record, keys)
    result = {**keys, "verb": "tool_result"}
    keys["status"] = "ok"
    if record.is_error or not OF_TOOL.isdisjoint(found):
        copy(found, keys, OPENING_KEYS, events.flags)
        if "tool_call_id" in keys:
            result["tool_call_id"] = keys["tool_call_id"]
        result["status"] = status(record)
        copy(found, result, TOOL_CLOSING_KEYS, events.flags)
    else:
        result["status"] = "ok"
    opened = record.span_id + ".open"
    events.add(record, OPENING, opened, agent, keys)
    if a.TURNS in found:
        events.claim(opened, found[a.TURNS])
    events.add_closing(record, opened, agent, result)


def take_point(events: Events, record: SpanRecord) -> None:
    """Add what one span tells in one event."""
    found = record.attributes
    verb = found[a.VERB]
    if verb.__class__ is not str or verb not in VERBS:
        events.flags.add("garbled")
        verb = "decide"
    agent = _actor(events, record)
    keys: Json = {"verb": verb}
    if verb == "message":
        keys["from"] = agent
    events.place(record, keys)
    keys["status"] = status(record)
    if record.end > record.start:
        keys["duration_s"] = (record.end - record.start) / NANO
    copy(found, keys, POINT_KEYS, events.flags)
    events.add(record, POINT, record.span_id, agent, keys)
    if a.TURNS in found:
        events.claim(record.span_id, found[a.TURNS])


def _actor(events: Events, record: SpanRecord) -> str:
    """Return who does what a span tells; a process that was called does not know its caller."""
    found = record.attributes
    if not found.get(a.AGENT_NAME):
        holder = events.tree.by_id.get(events.tree.owner(record))
        found = found if holder is None else holder.attributes
    return text(found, a.AGENT_NAME)


def make_stop(events: Events, record: SpanRecord | None) -> Event:
    """Return the run's last event; where none was seen, one that says so."""
    root = events.tree.root
    agent = "unknown" if root is None else text(root.attributes, a.AGENT_NAME)
    if root is None:
        events.flags.add("no_root")
    elif record is None:
        events.flags.add("no_stop")
    if record is None:
        event_id = events.tree.root_id + ".stop"
        at = events.rows[-1][0] if events.rows else events.origin
        keys = _unseen(events.tree.root_id)
    else:
        event_id, at = record.span_id, record.start
        keys = _seen(events, record)
    keys["decision"] = "O5"
    events.keys[event_id] = keys
    return Event(event_id, events.seconds(at), VERBS["stop"][0], agent, keys)


def _unseen(root_id: str) -> Json:
    return {
        "verb": "stop",
        "activation": root_id,
        "status": "ok",
        "stop_reason": "unknown",
        "causality": "inferred",
    }


def _seen(events: Events, record: SpanRecord) -> Json:
    keys: Json = {"verb": "stop"}
    events.place(record, keys)
    keys["status"] = status(record)
    copy(record.attributes, keys, POINT_KEYS, events.flags)
    if a.EDGES in record.attributes:
        events.incoming[record.span_id] = record.attributes[a.EDGES]
    return keys
