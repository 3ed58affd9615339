"""Which activation a span belongs to, whatever lies between them and whatever is missing."""

from __future__ import annotations

from typing import Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.records import SpanRecord, is_ours

_MAY_BE_OPEN: Final = frozenset(("open_spans", "truncated", "given_up"))
"""Flags of runs that closed before all of their spans had come."""


class Tree:
    """The spans of one run, by id.

    Args:
        root_id: Span id of the run's root, which may be missing.
        by_id: The spans in canonical order.
        flags: Where to say what is not as it should be.

    Attributes:
        root: The run's root; None where it is missing.
        owners: Span to the nearest activation at or above it, as far as it is known.
    """

    __slots__ = ("_flags", "_inside", "by_id", "owners", "root", "root_id")

    def __init__(self, root_id: str, by_id: dict[str, SpanRecord], flags: set[str]) -> None:
        self.root_id = root_id
        self.by_id = by_id
        self.root = by_id.get(root_id)
        self._flags = flags
        self.owners: dict[str | None, str] = {}
        self._inside: dict[str, bool] = {}

    def owner(self, record: SpanRecord) -> str:
        """Return the span id of the nearest activation above a span, else the root's."""
        outer = above(record) if a.ACTIVATION in record.attributes else record.parent_id
        known = self.owners.get(outer)
        return self.activation_at(outer, record.span_id) if known is None else known

    def activation_at(self, span_id: str | None, asking: str) -> str:
        """Return the nearest activation at or above a span."""
        path: list[str] = [asking]
        found: str | None = None
        while span_id is not None:
            found = self.owners.get(span_id) or self._activation(span_id)
            if found is not None:
                break
            path.append(span_id)
            if len(path) > len(self.by_id) + 1:
                self._flags.add("cyclic_parents")
                break
            span_id = above(self.by_id[span_id])
        found = found or self.root_id
        for passed in path[1:]:
            self.owners[passed] = found
        return found

    def _activation(self, span_id: str) -> str | None:
        """Return an activation's own id, the root's for a span that is missing, else None."""
        record = self.by_id.get(span_id)
        if record is None:
            if span_id != self.root_id:
                self._flags.add("orphans")
            return self.root_id
        if a.OPENS in record.attributes:
            self.owners[span_id] = span_id
            return span_id
        return None

    def is_inside(self, record: SpanRecord) -> bool:
        """Whether a span of others is below one of ours, as far as can be seen."""
        inside = self._inside
        passed: list[str] = []
        at = self.parent(record)
        while at is not None and at.span_id not in inside:
            inside[at.span_id] = is_ours(at.attributes)
            if inside[at.span_id]:
                break
            passed.append(at.span_id)
            at = self.parent(at)
        is_below = at is not None and inside[at.span_id]
        inside.update(dict.fromkeys(passed, is_below))
        return is_below or bool(self._flags & _MAY_BE_OPEN)

    def parent(self, record: SpanRecord) -> SpanRecord | None:
        """Return a span's OTel parent where it is of the run and not missing."""
        return None if record.parent_id is None else self.by_id.get(record.parent_id)


def above(record: SpanRecord) -> str | None:
    """Return the id of the span that a span says it belongs to."""
    named = record.attributes.get(a.ACTIVATION)
    return named if named.__class__ is str else record.parent_id
