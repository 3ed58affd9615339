"""Checks of what is written: attributes, traces, stops, and no content."""

from __future__ import annotations

import random
from abc import ABC
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import StatusCode

from orchtrace_otel import attributes as a
from orchtrace_otel import schema
from orchtrace_otel.builder import SpanRecord, build
from orchtrace_otel.content import Capture, gate
from orchtrace_otel.content.recorder import Recorder
from orchtrace_otel.model import STOP_REASONS
from orchtrace_otel.otlp import root_of
from orchtrace_otel.rewards import score
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._recordings import Recording, is_ours, span_id_of
from orchtrace_otel.testing._shapes import difference, shape
from orchtrace_otel.testing._teams import CANARY, AdapterTeams
from orchtrace_otel.testing._values import unknown_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


class RecordChecks(AdapterTeams, ABC, kit=True):
    """What is written of a run."""

    @check
    def test_attributes_have_known_keys_and_exact_types(self) -> None:
        """Spans of ours carry what they must, under known keys, with values of exact types.

        Troubleshooting: keys belong into orchtrace_otel/attributes.py; a bool is no int, a
        number is no text, and None is left out.
        """
        for one, _ in self._traces():
            for span in one.captured.spans:
                if is_ours(span):
                    faults = unknown_values(span.attributes or {})
                    must = f"{one.name} must write {span.name!r} with known keys and exact types"
                    self.must(not faults, must, "; ".join(faults))

    @check
    def test_each_span_tells_its_run(self) -> None:
        """Spans of ours name their run's root in tracestate; the root alone has the run's id.

        Troubleshooting: open spans with the functions of orchtrace_otel.spans; a span that
        is made by hand, or whose context is changed, is of no run to who reads OTLP.
        """
        for one, trace in self._traces():
            root_id = trace.trace_id.rpartition("-")[2]
            for span in filter(is_ours, one.captured.spans):
                told = "" if span.context is None else span.context.trace_state.to_header()
                must = f"{one.name} must name the run in the tracestate of {span.name!r}"
                self.must(root_of(told) == root_id, must, repr(told))
                named = (span.attributes or {}).get(a.RUN_ID)
                wanted = trace.trace_id if span_id_of(span) == root_id else None
                must = f"{one.name} must write the run's id on its root alone, not on {span.name!r}"
                self.must(named == wanted, must, named)

    @check
    def test_traces_are_valid(self) -> None:
        """Every trace is a document of the schema, without cycles, with causes before effects.

        Troubleshooting: each fault names its path; edges start from marks of the same run
        that were there already.
        """
        for one, trace in self._traces():
            faults = schema.check(trace.to_dict())
            must = f"{one.name} must give a valid trace"
            self.must(not faults, must, "; ".join(map(str, faults[:5])))
            must = f"{one.name} must give a trace that lost nothing"
            self.must(not trace.flags, must, trace.flags)

    @check
    def test_spans_in_any_order_give_the_same_trace(self) -> None:
        """A trace built again from its spans, in another order, is the one built inline.

        Troubleshooting: close intervals before the run; what is set on a span after it was
        closed, and what ends after its root, is in the spans alone.
        """
        shuffled = random.Random(0)  # noqa: S311 - an order, no secret
        for one, trace in self._traces():
            records = [_record(span) for span in one.captured.spans]
            shuffled.shuffle(records)
            again = score(build(trace.trace_id, records))
            must = f"{one.name} must give one trace in any order of arrival"
            came = difference(shape(trace), shape(again)) or "other times or keys"
            self.must(schema.dump(again) == schema.dump(trace), must, came)

    @check
    def test_a_run_ends_with_its_stop(self) -> None:
        """The last event is the stop, with a reason, and that is no guess.

        Troubleshooting: close the run once, with one of model.STOP_REASONS; events after
        the stop mean that the run was closed too early.
        """
        for one, trace in self._traces():
            stops = [n for n, event in enumerate(trace.events) if event.verb == "stop"]
            must = f"{one.name} must stop once, at the end"
            self.must(stops == [len(trace.events) - 1], must, stops)
            reason = trace.events[-1].get("stop_reason")
            allowed = {"error"} if one.scenario == "failing" else {*STOP_REASONS} - _NO_REASONS
            must = f"{one.name} must stop for one of {sorted(allowed)}"
            self.must(reason in allowed, must, repr(reason))

    @check
    def test_content_stays_inside(self) -> None:
        """While content is off, no text of the team is in any span, trace or log.

        Troubleshooting: prompts, results, state and arguments are never written; of an
        exception the class is (pass it as `error`), never its text or its traceback.
        """
        for one in self._recordings():
            outcome = self._outcome(one.scenario, one.way)
            told = f"{outcome.result!r} {outcome.items!r} {outcome.error!r}"
            must = f"the team {one.scenario!r} must put CANARY into what it says"
            self.must(CANARY in told, must, told[:200])
            for place, text in _texts(one):
                must = f"{one.name} must not let content out through {place}"
                self.must(CANARY not in text, must, text[:200])

    @check
    def test_captured_content_is_redacted(self) -> None:
        """While content goes on spans, the host sees the same, and what is redacted is nowhere.

        Troubleshooting: hand texts to `content.active()` alone, which redacts them; shapes copy
        messages and leave the host's as they are.
        """
        redacting = Capture(mode="SPAN_ONLY", redact=lambda text: text.replace(CANARY, "[out]"))
        for scenario in self._scenarios():
            way = self._ways()[0]
            wanted = self._plainly(self._outcome(scenario, way))
            before = gate.use(Recorder(redacting, None))
            try:
                one = self._record(scenario, way)
            finally:
                gate.use(before)
            must = f"{one.name} must give the host {wanted!r} while content is on"
            self.must(self._plainly(one.outcome) == wanted, must, repr(self._plainly(one.outcome)))
            for place, text in _texts(one):
                must = f"{one.name} must not let what is redacted out through {place}"
                self.must(CANARY not in text, must, text[:200])


_NO_REASONS: Final = {"unknown", "error", "cancelled", "consumer_closed"}


def _record(span: ReadableSpan) -> SpanRecord:
    return SpanRecord(
        span_id_of(span),
        None if span.parent is None else f"{span.parent.span_id:016x}",
        span.start_time or 0,
        span.end_time or 0,
        dict(span.attributes or {}),
        span.status.status_code is StatusCode.ERROR,
        span.dropped_links,
        span.dropped_attributes,
    )


def _texts(one: Recording) -> Iterator[tuple[str, str]]:
    """Everything that a recording lets out, and where."""
    for span in one.captured.spans:
        yield "a span's name", span.name
        for key, value in (span.attributes or {}).items():
            yield f"the attribute {key} of {span.name!r}", f"{key}={value!r}"
        for event in span.events:
            yield f"an event of {span.name!r}", f"{event.name} {dict(event.attributes or {})}"
        for link in span.links:
            yield f"a link of {span.name!r}", repr(dict(link.attributes or {}))
        yield f"the status of {span.name!r}", str(span.status.description)
    for trace in one.captured.traces:
        yield "a trace", trace.to_json()
    for line in one.watched.logged:
        yield "the log", line
