"""Which run a span is of, whatever spans a host has around it: over OTLP as inline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceState

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, spans
from orchtrace_otel.testing import Captured, capture

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes

encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")


class Forgetful(Sampler):
    """A host's sampler that hands no tracestate on."""

    def should_sample(  # noqa: PLR0913 - the SDK's signature
        self,
        parent_context: otel_context.Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Keep the span, and forget its tracestate."""
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        """Return its name."""
        return "Forgetful"


@pytest.fixture(params=[False, True], ids=["tracestate", "without"])
def captured(request: pytest.FixtureRequest) -> Iterator[Captured]:
    """What is traced, once under a sampler that loses all tracestate."""
    with capture() as found:
        if request.param:
            found.provider.sampler = Forgetful()
        yield found


@orchtrace.tool
def look_up() -> None: ...


@orchtrace.agent
def critic() -> None:
    look_up()
    orchtrace.decide("route", chosen="a", candidates=["a"])


def host_span(name: str, context: otel_context.Context | None = None) -> trace.Span:
    """Start a span of the host's, current nowhere."""
    return trace.get_tracer("host").start_span(name, context=context)


def in_a_span_around() -> None:
    """Call a team inside a span that was there before."""
    with trace.use_span(host_span("job"), end_on_exit=True):
        orchtrace.team("alone")(critic)()


def in_a_span_from_before_the_run() -> None:
    """Make a span current again that is around the run."""
    around = host_span("job")

    @orchtrace.team
    def team() -> None:
        with trace.use_span(around):
            critic()

    with trace.use_span(around, end_on_exit=True):
        team()


def in_a_span_of_another_run() -> None:
    """Make a span current that an earlier run of the same OTel trace left open."""
    left: list[trace.Span] = []

    @orchtrace.team
    def first() -> None:
        left.append(host_span("left open"))

    @orchtrace.team
    def second() -> None:
        critic()
        with trace.use_span(left[0], end_on_exit=True):
            critic()
        critic()

    with trace.use_span(host_span("job"), end_on_exit=True):
        first()
        second()


def in_a_span_of_another_trace() -> None:
    """Call agents and tools where the host has begun an OTel trace of its own."""

    @orchtrace.team
    def team() -> None:
        with trace.use_span(host_span("own", otel_context.Context()), end_on_exit=True):
            critic()
            look_up()
        critic()

    team()


def below_a_span_that_was_handed_on() -> None:
    """Call agents where the host has made one of its spans current, and nothing else is."""

    @orchtrace.team
    def team() -> None:
        around = host_span("request")
        alone = trace.set_span_in_context(around, otel_context.Context())
        token = otel_context.attach(alone)
        critic()
        look_up()
        otel_context.detach(token)
        around.end()
        critic()

    team()


def below_headers_of_its_own() -> None:
    """Call agents of the same process as a client calls a server."""

    @orchtrace.team
    def team() -> None:
        headers = orchtrace.inject()
        with orchtrace.extract(headers):
            critic()
            orchtrace.decide("route", chosen="b", candidates=["b"])
        critic()

    team()


def below_a_full_tracestate() -> None:
    """Call a team from where other vendors have filled the tracestate."""
    full = TraceState([(f"vendor{number}", "1") for number in range(32)])
    caller = SpanContext(7, 8, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=full)
    token = otel_context.attach(trace.set_span_in_context(NonRecordingSpan(caller)))
    orchtrace.team("called")(critic)()
    otel_context.detach(token)


@pytest.mark.parametrize(
    "program",
    [
        in_a_span_around,
        in_a_span_from_before_the_run,
        in_a_span_of_another_run,
        in_a_span_of_another_trace,
        below_a_span_that_was_handed_on,
        below_headers_of_its_own,
        below_a_full_tracestate,
    ],
)
def test_spans_are_of_the_run_that_they_were_made_in(
    captured: Captured, program: Callable[[], None]
) -> None:
    """The host's spans decide where they hang, and the run alone whose they are."""
    program()
    sent = encoder.encode_spans(captured.spans).SerializeToString()
    received = otlp.traces(otlp.read_protobuf(sent))
    inline = {one.trace_id: one.to_json() for one in captured.traces if critic_worked(one)}
    assert inline
    assert {one.trace_id: one.to_json() for one in received if critic_worked(one)} == inline
    assert not any({"orphans", "missing_causes"} & set(one.flags) for one in received)


def critic_worked(run: orchtrace.Trace) -> bool:
    """Whether an agent was at work in it: a run of which the host left a span open says so."""
    return any(event.agent == "critic" for event in run.events)


def test_a_span_of_ours_names_its_run_whatever_is_around_it(captured: Captured) -> None:
    """So that spans below it, and agents that it calls in other processes, are told."""
    in_a_span_of_another_run()
    by_id = {span.context.span_id: span for span in captured.spans}
    (called,) = [
        span
        for span in captured.spans
        if a.VERB not in (span.attributes or {})
        and span.parent is not None
        and by_id[span.parent.span_id].name == "left open"
    ]
    second = next(span for span in captured.spans if span.name == "invoke_workflow second")
    assert called.context.trace_state[a.TRACESTATE_KEY] == f"{second.context.span_id:016x}"


def test_in_another_process_each_span_names_its_run(captured: Captured) -> None:
    """Whether the root's process ever sends its spans is not known there."""
    headers = {
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "tracestate": f"orchtrace={'c' * 16}",
    }
    with orchtrace.extract(headers):
        critic()
    told = {span.context.trace_state.get(a.TRACESTATE_KEY) for span in captured.spans}
    assert (len(captured.spans), told) == (3, {"c" * 16})
    sent = encoder.encode_spans(captured.spans).SerializeToString()
    (received,) = otlp.traces(otlp.read_protobuf(sent))
    assert received.trace_id == f"{'a' * 32}-{'c' * 16}"
    assert "no_root" in received.flags


def test_a_span_in_another_otel_trace_is_linked() -> None:
    """The run stays in one OTel trace, and says from where the host called."""
    with capture() as captured:
        in_a_span_of_another_trace()
    own = next(span for span in captured.spans if span.name == "own")
    root = next(span for span in captured.spans if span.name == "invoke_workflow team")
    called = [
        span
        for span in captured.spans
        if own.context.span_id in {x.context.span_id for x in span.links}
    ]
    assert sorted(span.name for span in called) == ["execute_tool look_up", "invoke_agent critic"]
    for span in called:
        assert span.context.trace_id == root.context.trace_id
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id


def test_headers_written_in_a_span_of_another_otel_trace_carry_the_run() -> None:
    """Whoever takes them up joins the run, below the activation that called."""

    @orchtrace.team
    def team() -> dict[str, str]:
        with trace.use_span(host_span("own", otel_context.Context()), end_on_exit=True):
            return dict(orchtrace.inject())

    with capture() as captured:
        headers = team()
    trace_id, _, root_id = captured.trace.trace_id.partition("-")
    assert headers["traceparent"].rpartition("-")[0] == f"00-{trace_id}-{root_id}"
    assert headers["tracestate"] == f"orchtrace={root_id}"


def test_a_full_tracestate_gives_its_last_member_for_the_run() -> None:
    """W3C has 32 at most, and the newest first."""
    with capture() as captured:
        below_a_full_tracestate()
    _, _, root_id = captured.trace.trace_id.partition("-")
    kept = [f"vendor{number}" for number in range(31)]
    for span in captured.spans:
        assert list(span.context.trace_state) == [a.TRACESTATE_KEY, *kept]
        assert span.context.trace_state[a.TRACESTATE_KEY] == root_id


def test_work_that_outlives_its_run_joins_it_from_nowhere() -> None:
    """The tracestate around it names the run still, which is over and was never elsewhere."""
    with capture():
        run = spans.start_run("team")
        assert run is not None
        token = run.root.attach()
        run.close()
        joined = spans.join_run()
        run.root.detach(token)
    assert joined is None
