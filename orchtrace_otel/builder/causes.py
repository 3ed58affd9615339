"""What spans say of their causes, as edges between events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from orchtrace_otel.builder.events import Events
from orchtrace_otel.builder.values import texts
from orchtrace_otel.model import EDGE_TYPES, Edge

_EDGE_TYPES: Final = frozenset(EDGE_TYPES)


def connect(events: Events) -> None:
    """Add an edge a cause, now that all events are known; a cause out of sight is flagged."""
    keys, edges = events.keys, events.edges
    for event_id, said in events.incoming.items():
        is_one = said.__class__ is tuple and len(said) == 1
        for item in said if is_one else _each_once(said, events.flags):
            try:
                kind, _, source = item.partition(":")
            except (AttributeError, TypeError):  # of others, who may send anything
                kind = source = ""
            if kind not in _EDGE_TYPES:
                events.flags.add("garbled")
            elif source in keys:
                edges.append(Edge(source, event_id, kind))
            else:
                _add_from_span(events, source, event_id, kind)


def _each_once(said: Any, flags: set[str]) -> Iterable[Any]:
    """Return what is said, each once; what cannot be compared is no cause, and is left out."""
    if not said:
        return ()
    items = said if said.__class__ is tuple else texts(said, flags)
    try:
        return dict.fromkeys(items)
    except TypeError:
        return dict.fromkeys(texts(items, flags))


def _add_from_span(events: Events, source: str, event_id: str, kind: str) -> None:
    """Add an edge from the opening above a span that another process named as the cause."""
    if source in events.tree.by_id:
        opened = events.tree.activation_at(source, source) + ".open"
        if opened in events.keys:
            events.edges.append(Edge(opened, event_id, kind))
            return
    events.flags.add("missing_causes")
