"""Spans as light records, each once, and what is kept of spans that are not ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from orchtrace_otel import attributes as a


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a span of others says of orchestration, whatever its dialect.

    Attributes:
        dialect: Which conventions it was read by.
        kind: `workflow`, `agent`, `tool`, `turn`, `handoff`, `spawn`, `decide`, `guard`, or
            `step`: glue that matters where nothing is around it.
        attributes: The rest under our own keys; nothing that people or models wrote.
        calls: Ids of the tool calls that a turn asked for.
    """

    dialect: str
    kind: str
    attributes: Mapping[str, Any]
    calls: tuple[str, ...] = ()


@dataclass(slots=True)
class SpanRecord:
    """What the builder needs of a span; made from SDK spans and from OTLP alike.

    Attributes:
        span_id: 16 hexadecimal digits.
        parent_id: The same of its OTel parent; None where it has none.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch.
        attributes: Its attributes; only read.
        is_error: Whether its OTel status is ERROR.
        links_dropped: Links that a limit of the SDK cut.
        attributes_dropped: Attributes that a limit of the SDK evicted.
        foreign: What it says where it is not ours and came over OTLP; read only in traces
            that hold no span of ours.
        root_id: Span id of the run's root, where it came over OTLP with a tracestate that
            tells it.
    """

    span_id: str
    parent_id: str | None
    start: int
    end: int
    attributes: Mapping[str, Any]
    is_error: bool = False
    links_dropped: int = 0
    attributes_dropped: int = 0
    foreign: Foreign | None = None
    root_id: str | None = None


def is_ours(attributes: Mapping[str, Any]) -> bool:
    """Whether a span with these attributes is one of ours.

    A run's id marks spans of senders that are older than this reader: they wrote it on
    each, and nothing else on calls of tools.
    """
    return a.VERB in attributes or a.OPENS in attributes or a.RUN_ID in attributes


def distinct(records: Iterable[SpanRecord]) -> tuple[dict[str, SpanRecord], set[str]]:
    """Return the spans by id, in canonical order, and the ids that came with different contents.

    A span that is sent again is the same span. Where two differ, the one that says
    most is taken, whichever came first.
    """
    ordered = sorted(records, key=_canonical)
    by_id = {record.span_id: record for record in ordered}
    if len(by_id) == len(ordered):
        return by_id, set()
    by_id.clear()
    differing: set[str] = set()
    for record in ordered:
        known = by_id.setdefault(record.span_id, record)
        if known != record:
            differing.add(record.span_id)
            by_id[record.span_id] = max(known, record, key=_fullness)
    return {record.span_id: record for record in sorted(by_id.values(), key=_canonical)}, differing


_canonical: Final = attrgetter("start", "span_id")


def _fullness(record: SpanRecord) -> tuple[int, bool, int, int, str]:
    """How much one of several versions of a span says; the same for none that differ."""
    held = sorted(record.attributes.items())
    rest = (record.parent_id, record.is_error, record.links_dropped, record.attributes_dropped)
    said = repr((held, rest, record.foreign, record.root_id))
    return (len(held), record.root_id is not None, record.end, record.start, said)


_FOREIGN: Final = (
    a.OPERATION,
    a.AGENT_NAME,
    a.PROVIDER,
    a.REQUEST_MODEL,
    a.RESPONSE_MODEL,
    a.FINISH_REASONS,
    a.INPUT_TOKENS,
    a.OUTPUT_TOKENS,
)


def foreign_attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a span that is not ours: who called which model, and the usage."""
    return {key: found[key] for key in _FOREIGN if key in found}
