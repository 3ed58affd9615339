"""Times of spans whose beginnings are whole milliseconds, as JavaScript's SDK writes them.

It takes the wall clock, in milliseconds, as a span begins, and adds how long the span took,
exactly. So each of its spans lies up to a millisecond before its time: what followed at once
seems to begin before the end of what led to it, and children seem to outlive their parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from orchtrace_otel.builder import SpanRecord
from orchtrace_otel.dialects.scene import ACTIVATIONS

_GRAIN: Final = 1_000_000


def settle(by_id: Mapping[str, SpanRecord]) -> Mapping[str, SpanRecord]:
    """Return the spans with ends that agree with beginnings, where these are of a coarse clock.

    That is asked of those that say something: a span of a database or of a caller may be finer.
    An end counts in whole milliseconds, too: then it is never later than what followed it. What
    began in the same one has no length then, and no order beside the like of it. A parent ends
    no earlier than its child that seems to outlive it by less than the grain.
    """
    if any(record.start % _GRAIN for record in by_id.values() if record.foreign is not None):
        return by_id
    ends = {key: _end(record) for key, record in by_id.items()}
    for key in sorted(ends, key=lambda key: (-ends[key], key)):
        end, above = ends[key], by_id.get(by_id[key].parent_id or "")
        while above is not None and ends[above.span_id] < end < above.end + _GRAIN:
            ends[above.span_id] = end
            above = by_id.get(above.parent_id or "")
    in_order = sorted(by_id.values(), key=_place)
    return {one.span_id: replace(one, end=ends[one.span_id]) for one in in_order}


def _end(record: SpanRecord) -> int:
    is_coarse = record.start % _GRAIN == 0 and record.end > record.start
    return record.end - record.end % _GRAIN if is_coarse else record.end


def _place(record: SpanRecord) -> tuple[int, bool, int, str]:
    """Of what began in one millisecond an agent comes first, then what was done first."""
    is_within = record.foreign is None or record.foreign.kind not in ACTIVATIONS
    return record.start, is_within, record.end, record.span_id
