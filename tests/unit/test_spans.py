"""Spans: what is on them, whose parents they have, and what stays the host's."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel.model import EDGE_TYPES
from orchtrace_otel.pipeline import _Open
from orchtrace_otel.rewards import MEASURES
from orchtrace_otel.spans import Tracing
from orchtrace_otel.testing import Captured, capture
from tests.trees import recording, tree


@orchtrace.tool
def look_up() -> None: ...


@orchtrace.agent("critic", role="reviewer")
def critic() -> None:
    look_up()


@orchtrace.team("readers", task_id="q-17", tags={"split": "dev"})
def team() -> None:
    critic()


def named(captured: Captured, name: str) -> ReadableSpan:
    found = [span for span in captured.spans if span.name == name]
    assert len(found) == 1, [span.name for span in captured.spans]
    return found[0]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.span_id:016x}"


# -- what is on them ---------------------------------------------------------------------


def test_spans_carry_the_conventions_names_and_ours() -> None:
    """Every attribute of every span of a small run; nothing else is written."""
    with recording() as captured:
        team()
    run = captured.trace.trace_id
    root, agent, tool, stop = (
        named(captured, name)
        for name in (
            "invoke_workflow readers",
            "invoke_agent critic",
            "execute_tool look_up",
            "stop",
        )
    )
    assert attributes(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look_up",
        "gen_ai.agent.name": "critic",
        "orchtrace.verb": "tool_call",
        "orchtrace.edges": (f"causal:{ids(agent)}.open",),
    }
    assert attributes(agent) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "critic",
        "orchtrace.opens": "spawn",
        "orchtrace.agent.instance_id": "critic#1",
        "orchtrace.agent.role": "reviewer",
        "orchtrace.edges": (f"spawn:{ids(root)}.open",),
        "orchtrace.edges.close": (f"tool_dependency:{ids(tool)}.close",),
    }
    assert attributes(stop) == {
        "gen_ai.agent.name": "readers",
        "orchtrace.verb": "stop",
        "orchtrace.stop.reason": "information_complete",
        "orchtrace.edges": (f"return:{ids(agent)}.close",),
    }
    of_root = attributes(root)
    measures = {key for key in of_root if key.startswith((a.METRIC_PREFIX, a.REWARD_PREFIX))}
    assert {key: of_root[key] for key in of_root.keys() - measures} == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "readers",
        "gen_ai.agent.name": "readers",
        "orchtrace.run.id": run,
        "orchtrace.opens": "begin",
        "orchtrace.agent.instance_id": "readers#1",
        "orchtrace.system": "python",
        "orchtrace.task.id": "q-17",
        "orchtrace.tag.split": "dev",
    }
    trace = captured.trace
    assert measures == {a.METRIC_PREFIX + name for name in (*MEASURES, "turns_without_usage")}
    assert measures < {a.METRIC_PREFIX + name for name in trace.metrics or {}}


def test_effects_of_one_span_share_its_link() -> None:
    """What waits to be exported is looked through by the garbage collector: it is kept small."""

    @orchtrace.team
    def lead() -> None:
        found = [look_up() for _ in range(3)]
        with orchtrace.aggregate(found):
            critic()

    with recording() as captured:
        lead()
    links = [link for span in captured.spans for link in span.links]
    causes = {link.context.span_id for link in links}
    assert len({id(link) for link in links}) == len(causes) < len(links)


def test_every_edge_is_a_link_too() -> None:
    """What the arrays name is linked, in their order, so that any backend shows it."""
    with recording() as captured:
        team()
    for span in captured.spans:
        found = attributes(span)
        written = [*found.get(a.EDGES, ()), *found.get(a.EDGES_CLOSE, ())]
        causes = [item.partition(":")[2].partition(".")[0] for item in written]
        assert causes == [f"{link.context.span_id:016x}" for link in span.links]
        assert {item.partition(":")[0] for item in written} <= set(EDGE_TYPES)


def test_parents_are_the_nesting() -> None:
    """Each span lies below the activation or tool call that it was made in."""
    with recording() as captured:
        team()
    parents = {span.name: span.parent.span_id if span.parent else None for span in captured.spans}
    by_name = {span.name: int(ids(span), 16) for span in captured.spans}
    assert parents == {
        "invoke_workflow readers": None,
        "invoke_agent critic": by_name["invoke_workflow readers"],
        "execute_tool look_up": by_name["invoke_agent critic"],
        "stop": by_name["invoke_workflow readers"],
    }


def test_the_root_ends_last_and_after_its_stop() -> None:
    """Its end is the stop's time; everything of the run lies inside."""
    with recording() as captured:
        team()
    root, stop = captured.spans[-1], captured.spans[-2]
    assert (root.name, stop.name) == ("invoke_workflow readers", "stop")
    assert root.end_time == stop.start_time == stop.end_time


def test_times_within_a_run_never_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that is set back while a run is open does not put effects before causes."""
    import time

    @orchtrace.team
    def long() -> None:
        critic()
        monkeypatch.setattr(time, "time_ns", lambda: 5)
        critic()

    with recording(deterministic=False) as captured:
        long()
    times = [event.t for event in captured.trace.events]
    assert times == sorted(times)
    assert len(set(times)) == len(times)


# -- what stays the host's ----------------------------------------------------------------


def test_what_the_host_sets_between_calls_stays_visible_in_callees() -> None:
    """Baggage and any other value of the OTel context reach agents and tools below."""
    seen: list[tuple[object, object]] = []
    key = otel_context.create_key("hosts-own")

    def look() -> None:
        seen.append((baggage.get_baggage("user"), otel_context.get_value(key)))

    inner_tool, inner = orchtrace.tool(look), orchtrace.agent("inner")(look)

    @orchtrace.agent
    async def ainner() -> None:
        await asyncio.sleep(0)
        look()

    @orchtrace.agent
    def outer() -> None:
        look()
        with _set(baggage.set_baggage("user", "bob")), _set(otel_context.set_value(key, 2)):
            inner()
            inner_tool()
            asyncio.run(ainner())
        look()

    with (
        recording(),
        _set(baggage.set_baggage("user", "ann")),
        _set(otel_context.set_value(key, 1)),
    ):
        outer()
    assert seen == [("ann", 1), ("bob", 2), ("bob", 2), ("bob", 2), ("ann", 1)]


@contextmanager
def _set(context: otel_context.Context) -> Iterator[None]:
    token = otel_context.attach(context)
    try:
        yield
    finally:
        otel_context.detach(token)


def test_a_span_of_the_hosts_between_two_agents_is_the_parent() -> None:
    """OTel shows it where it was; the trace still knows which agent called."""

    @orchtrace.team
    def outer() -> None:
        with trace.get_tracer("host").start_as_current_span("step") as step:
            steps.append(step)
            critic()

    steps: list[trace.Span] = []
    with recording() as captured:
        outer()
    agent = named(captured, "invoke_agent critic")
    assert agent.parent is not None
    assert agent.parent.span_id == steps[0].get_span_context().span_id
    assert tree(captured.trace) == (
        "outer#1 begin\n"
        "  critic#1 spawn as reviewer < spawn outer#1.open\n"
        "    look_up.open < causal critic#1.open\n"
        "    look_up.close\n"
        "  critic#1.close < tool_dependency look_up.close\n"
        "  stop information_complete < return critic#1.close"
    )


def test_the_current_span_is_the_agents_and_takes_what_the_host_sets() -> None:
    """`get_current_span().set_attribute` in an agent, a tool or a team is on its span."""

    @orchtrace.tool
    def tool() -> None:
        trace.get_current_span().set_attribute("mine", "tool")

    @orchtrace.team
    def host() -> None:
        trace.get_current_span().set_attribute("mine", "team")
        trace.get_current_span().add_event("something")
        tool()

    with recording() as captured:
        host()
    assert attributes(named(captured, "execute_tool tool"))["mine"] == "tool"
    root = named(captured, "invoke_workflow host")
    assert attributes(root)["mine"] == "team"
    assert [event.name for event in root.events] == ["something"]


def test_a_run_lies_below_the_hosts_span() -> None:
    """In the trace of the request that it serves."""
    with recording() as captured:
        tracer = captured.provider.get_tracer("host")
        with tracer.start_as_current_span("request") as request:
            team()
    root = named(captured, "invoke_workflow readers")
    assert root.parent is not None
    assert root.parent.span_id == request.get_span_context().span_id
    assert len(captured.traces) == 1


def test_a_host_that_fills_a_span_up_does_not_evict_ours() -> None:
    """The SDK drops the oldest attributes; ours are written again, and the loss is flagged."""
    provider = TracerProvider(
        span_limits=SpanLimits(max_span_attributes=16), shutdown_on_exit=False
    )
    with recording_through(provider) as captured:

        @orchtrace.agent
        def chatty() -> None:
            for number in range(40):
                trace.get_current_span().set_attribute(f"mine.{number}", number)

        chatty()
    assert [event.get("to") for event in captured.trace.events[:2]] == ["orchestrator", "chatty"]
    assert "attributes_evicted" in captured.trace.flags


@contextmanager
def recording_through(provider: TracerProvider) -> Iterator[Captured]:
    """Record, with the spans made by a given provider."""
    captured = Captured()
    provider.add_span_processor(captured)
    provider.add_span_processor(captured.pipeline)
    before = spans.use(Tracing(provider.get_tracer(a.SCOPE), captured.pipeline))
    try:
        yield captured
    finally:
        spans.use(before)


# -- on and off ------------------------------------------------------------------------------


def test_suppressed_instrumentation_is_honoured() -> None:
    """No run begins there, and nothing is recorded in it inside a run."""

    @orchtrace.team
    def outer() -> None:
        with suppress_instrumentation():
            critic()
            look_up()

    with recording() as captured:
        with suppress_instrumentation():
            team()
        assert captured.started == 0
        outer()
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]


def test_under_a_host_that_samples_nothing_nothing_is_recorded() -> None:
    """Functions run as they are, and children do not become runs of their own."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    seen: list[spans.Run | None] = []

    @orchtrace.agent
    def inner() -> int:
        seen.append(orchtrace.current_run())
        orchtrace.decide("x", chosen="y")
        look_up()
        return 1

    @orchtrace.team
    def outer() -> int:
        return inner() + asyncio.run(orchtrace.agent("other")(_one)())

    with recording_through(provider) as captured:
        before = otel_context.get_current()
        assert outer() == 2
        assert inner() == 1
        assert otel_context.get_current() is before
    assert captured.traces == []
    assert memory.get_finished_spans() == ()
    assert captured.started == 0
    assert dict(captured.pipeline.losses) == {}


async def _one() -> int:
    return 1


def _current(context: otel_context.Context | None) -> trace.Span:
    return trace.get_current_span(context)


def _like_current(context: otel_context.Context | None) -> trace.Span:
    return trace.NonRecordingSpan(_current(context).get_span_context())


@pytest.mark.parametrize("gives", [_current, _like_current])
def test_a_tracer_that_is_off_leaves_the_hosts_span_alone(
    gives: Callable[[otel_context.Context | None], trace.Span],
) -> None:
    """It gives back the current span, or one of its ids, as tracers that do nothing do."""

    class Off:
        def start_span(self, name: str, context: Any = None, **facts: Any) -> trace.Span:
            return gives(context)

    @orchtrace.team
    def host() -> orchtrace.Run | None:
        critic()
        orchtrace.record_reward("style", 1)
        return orchtrace.current_run()

    provider = TracerProvider(shutdown_on_exit=False)
    before = spans.use(Tracing(Off()))  # type: ignore[arg-type]
    try:
        with provider.get_tracer("http").start_as_current_span("request") as request:
            own = request.get_span_context()
            assert host() is None
            assert request.is_recording()
            assert (request.get_span_context(), attributes(request)) == (own, {})
        assert host() is None
        assert not trace.INVALID_SPAN.get_span_context().trace_state
    finally:
        spans.use(before)
        provider.shutdown()


@pytest.mark.swallows_errors
def test_a_tracer_that_fails_never_reaches_the_host() -> None:
    """The function runs as it is, once, whatever our side does."""
    calls: list[int] = []

    class Broken:
        def start_span(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError("the canary")

    @orchtrace.team
    def host() -> str:
        calls.append(1)
        return "done"

    before = spans.use(Tracing(Broken()))  # type: ignore[arg-type]
    try:
        context = otel_context.get_current()
        assert host() == "done"
        assert otel_context.get_current() is context
    finally:
        spans.use(before)
    assert calls == [1]


@pytest.mark.swallows_errors
@pytest.mark.parametrize("place", [0, 1])
def test_a_processor_that_fails_at_the_end_of_spans_costs_the_run_nothing(place: int) -> None:
    """The SDK lets its error out of `span.end`, before or after our own processor is asked."""

    class Fails(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            raise ValueError("the canary")

    @orchtrace.agent
    def critic() -> str:
        orchtrace.decide("route", chosen="a", candidates=["a", "b"])
        return "fine"

    @orchtrace.team
    def lead() -> str:
        return critic()

    with capture() as captured:
        lead()
        whole = captured.trace
    with capture() as captured:
        processors = captured.provider._active_span_processor
        there = list(processors._span_processors)
        processors._span_processors = (*there[:place], Fails(), *there[place:])
        assert lead() == "fine"
        assert captured.pipeline._runs == {}
        one = captured.trace
    assert [event.verb for event in one.events] == [event.verb for event in whole.events]
    assert [edge.type for edge in one.edges] == [edge.type for edge in whole.edges]
    assert one.flags == ()


def test_a_run_is_closed_once() -> None:
    """A second close, from wherever, adds nothing."""
    with recording() as captured:
        run = spans.start_run("by hand")
        assert run is not None
        agent = spans.open_activation(run.root, "agent")
        agent.close()
        agent.close(status="error")
        run.close()
        run.close(stop_reason="error")
    assert [event.verb for event in captured.trace.events] == ["begin", "spawn", "return", "stop"]
    assert captured.trace.events[-1]["stop_reason"] == "information_complete"


def test_spans_that_are_open_when_the_run_stops_are_flagged_and_counted() -> None:
    """The trace says that something was still going on."""
    gate, started = threading.Event(), threading.Event()

    @orchtrace.agent
    def slow() -> None:
        started.set()
        gate.wait(30)

    thread = threading.Thread(target=slow)

    @orchtrace.team
    def hasty() -> None:
        thread.start()
        started.wait(30)

    with recording(deterministic=False) as captured:
        hasty()
        gate.set()
        thread.join()
    assert captured.trace.flags == ("open_spans",)
    assert dict(captured.pipeline.losses) == {"late_spans": 1}


@pytest.mark.parametrize("moment", ["begins", "ends"])
def test_a_span_counts_as_open_from_before_it_begins_until_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A run that stops in between, in another thread, says that something was going on."""
    gate, reached = threading.Event(), threading.Event()

    def wait_in(thread: threading.Thread) -> None:
        if threading.current_thread() is thread:
            reached.set()
            gate.wait(30)

    class Waits(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if moment == "begins":
                wait_in(thread)

    keep = vars(_Open)["ended"]

    def keeps(opened: Any, span: object) -> None:
        if moment == "ends":
            wait_in(thread)
        keep(opened, span)

    monkeypatch.setattr(_Open, "ended", keeps)
    thread = threading.Thread(target=orchtrace.agent(lambda: None, name="slow"))

    @orchtrace.team
    def hasty() -> None:
        thread.start()
        reached.wait(30)

    with recording(deterministic=False) as captured:
        captured.provider.add_span_processor(Waits())
        hasty()
        gate.set()
        thread.join()
    assert "open_spans" in captured.trace.flags
