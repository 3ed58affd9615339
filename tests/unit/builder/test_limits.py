"""Limits of the SDK on a span cost links and attributes, never edges; a chain may be any depth."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, schema, spans
from orchtrace_otel.builder import SpanRecord, build
from orchtrace_otel.model import Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.testing import Captured
from tests.given import given_rewards
from tests.unit.builder.small_runs import RUN, activation, root, stop


def captured_under(limits: SpanLimits) -> Captured:
    """A place to record, whose provider has limits."""
    captured = Captured()
    captured.provider = TracerProvider(shutdown_on_exit=False, span_limits=limits)
    captured.provider.add_span_processor(captured)
    captured.provider.add_span_processor(captured.pipeline)
    captured.tracing = spans.Tracing(captured.provider.get_tracer(a.SCOPE), captured.pipeline)
    return captured


def run_under(limits: SpanLimits, host: Any) -> Trace:
    """Trace `host` under limits."""
    captured = captured_under(limits)
    before = spans.use(captured.tracing)
    try:
        host()
    finally:
        spans.use(before)
    offline = score(build(captured.trace.trace_id, map(_record, captured.spans)))
    assert offline.to_json() == captured.trace.to_json()
    assert list(schema.check(captured.trace.to_dict())) == []
    return captured.trace


def _record(one: ReadableSpan) -> SpanRecord:
    return SpanRecord(
        f"{one.context.span_id:016x}",
        None if one.parent is None else f"{one.parent.span_id:016x}",
        one.start_time or 0,
        one.end_time or 0,
        dict(one.attributes or {}),
        not one.status.is_ok,
        one.dropped_links,
        one.dropped_attributes,
    )


def fan_out(branches: int) -> Any:
    """A team that merges what many critics gave back."""

    @orchtrace.agent
    async def critic(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @orchtrace.team
    async def lead() -> None:
        answers = await asyncio.gather(*(critic(number) for number in range(branches)))
        with orchtrace.aggregate(answers):
            pass

    return lambda: asyncio.run(lead())


def _merged(one: Trace) -> int:
    return sum(edge.type == "aggregate" for edge in one.edges)


def test_a_fan_in_of_200_keeps_its_edges_though_links_are_cut() -> None:
    """OTel keeps 128 links of a span; the arrays have all 200 causes, and the run says so."""
    one = run_under(SpanLimits(), fan_out(200))
    assert _merged(one) == 200
    assert one.flags == ("links_cut",)


def test_two_links_a_span_are_enough_for_every_edge() -> None:
    """A small limit on links costs links, never edges."""
    one = run_under(SpanLimits(max_links=2), fan_out(5))
    whole = run_under(SpanLimits(), fan_out(5))
    assert len(one.edges) == len(whole.edges)
    assert _merged(one) == 5
    assert one.flags == ("links_cut",)


def test_a_host_that_fills_our_spans_up_does_not_push_ours_out() -> None:
    """The SDK evicts the oldest attributes, ours, which are set again before the end."""

    def fill() -> None:
        for number in range(200):
            otel.get_current_span().set_attribute(f"host.{number}", number)

    @orchtrace.tool
    def search() -> None:
        fill()

    @orchtrace.agent
    def critic() -> None:
        fill()
        search()
        orchtrace.record_reward("style", 1.0)

    @orchtrace.team(task_id="q")
    def lead() -> None:
        critic()
        fill()

    one = run_under(SpanLimits(), lead)
    verbs = [event.verb for event in one.events]
    assert verbs == ["begin", "spawn", "tool_call", "tool_result", "return", "stop"]
    assert (one.task_id, given_rewards(one)) == ("q", {"style": 1.0})
    assert one.flags == ("attributes_evicted",)


def test_results_that_do_not_fit_on_the_root_are_flagged_inline_too() -> None:
    """Tags of the host and our results together are too many: the root evicts, and says so."""
    tags = {f"tag{number}": "x" for number in range(115)}

    @orchtrace.team(tags=tags)
    def lead() -> None:
        orchtrace.record_reward("style", 1.0)

    one = run_under(SpanLimits(), lead)
    assert one.flags == ("attributes_evicted",)
    assert given_rewards(one) == {"style": 1.0}


def test_a_limit_on_the_length_of_values_is_flagged() -> None:
    """Edges that were cut short name nothing any more; the trace is sound and says so."""
    captured = captured_under(SpanLimits(max_attribute_length=20))
    before = spans.use(captured.tracing)
    try:
        fan_out(2)()
    finally:
        spans.use(before)
    assert list(schema.check(captured.trace.to_dict())) == []
    assert captured.trace.flags == ("missing_causes", "values_cut")


@pytest.mark.parametrize("longest", [20, 30, 48])
def test_a_run_whose_id_was_cut_is_found_by_its_tracestate(longest: int) -> None:
    """The root's attribute holds a part of it; a collector has the whole run all the same."""
    captured = captured_under(SpanLimits(max_attribute_length=longest))
    before = spans.use(captured.tracing)
    try:
        fan_out(2)()
    finally:
        spans.use(before)
    data = encode_spans(captured.spans).SerializeToString()
    (received,) = otlp.traces(otlp.read_protobuf(data))
    assert received.trace_id == captured.trace.trace_id
    assert [event.id for event in received.events] == [event.id for event in captured.trace.events]
    assert "no_root" not in received.flags


def test_a_deep_chain_is_built_without_recursion() -> None:
    """Ten thousand agents inside each other are no more trouble than beside each other."""
    depth = 10_000
    chain = [activation(number, number - 1) for number in range(2, depth)]
    one = score(build(RUN, [root(), *chain, stop(depth)]))
    assert len(one.events) == 2 * depth - 2
    assert one.flags == ()
