"""What spans say of their causes, as edges between events."""

from __future__ import annotations

from typing import Final

from orchtrace_otel.builder.events import Events
from orchtrace_otel.model import EDGE_TYPES, Edge

_EDGE_TYPES: Final = frozenset(EDGE_TYPES)


def connect(events: Events) -> None:
    """Add an edge a cause, now that all events are known; a cause out of sight is flagged."""
    keys, edges, flags = events.keys, events.edges, events.flags
    for event_id, items in events.incoming.items():
        seen: set[str] = set()
        for item in items:
            try:
                kind, _, named = item.partition(":")
            except AttributeError:  # of others, who may send anything
                flags.add("garbled")
                continue
            if kind not in _EDGE_TYPES:
                flags.add("garbled")
                continue
            source = named if named in keys else _resolve(events, named)
            if source is None:
                flags.add("missing_causes")
            elif item not in seen:
                seen.add(item)
                edges.append(Edge(source, event_id, kind))


def _resolve(events: Events, source: str) -> str | None:
    """Return the opening above a span that another process named as its cause."""
    if source not in events.tree.by_id:
        return None
    opened = events.tree.activation_at(source, source) + ".open"
    return opened if opened in events.keys else None
