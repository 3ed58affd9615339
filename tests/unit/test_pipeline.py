"""Runs are followed within bounds; what a bound costs is flagged, counted and said."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, pipeline, schema, spans
from orchtrace_otel.finished import Finished
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.rewards import MEASURES
from orchtrace_otel.settings import Settings
from orchtrace_otel.spans import _activation, _run
from orchtrace_otel.testing import capture
from tests.keeping import Kept


@contextmanager
def configured(**more: Any) -> Iterator[tuple[TracerProvider, Kept]]:
    """Configure with a provider and an exporter of traces, and clean up."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = Kept()
    try:
        orchtrace.configure(tracer_provider=provider, exporters=[exporter], **more)
        yield provider, exporter
    finally:
        orchtrace.shutdown()
        provider.shutdown()


@contextmanager
def observed(observer: Any) -> Iterator[TracerProvider]:
    """Let a pipeline follow what happens in the block."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(observer)
    before = spans.use(spans.Tracing(provider.get_tracer(a.SCOPE), observer))
    try:
        yield provider
    finally:
        spans.use(before)
        provider.shutdown()


@orchtrace.tool
def search() -> str:
    """A tool."""
    return "found"


@orchtrace.agent
def critic() -> str:
    """An agent with a tool."""
    return search()


@orchtrace.team
def lead() -> str:
    """A team of one agent."""
    return critic()


def foreign(name: str = "other") -> Any:
    """A tracer of another instrumentation."""
    return otel.get_tracer(name)


# --- from a run to its trace --------------------------------------------------------------


def test_a_finished_run_is_with_the_exporters() -> None:
    """What decorated functions do ends as one sound trace, results on the root."""
    memory = InMemorySpanExporter()
    with configured() as (provider, exporter):
        provider.add_span_processor(BatchSpanProcessor(memory))
        lead()
        assert orchtrace.flush()
        assert orchtrace.losses() == {}
    (trace,) = exporter.traces
    assert [event.verb for event in trace.events] == [
        "begin",
        "spawn",
        "tool_call",
        "tool_result",
        "return",
        "stop",
    ]
    assert list(schema.check(trace.to_dict())) == []
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    assert root.attributes is not None
    told = {
        key.removeprefix(a.METRIC_PREFIX): value
        for key, value in root.attributes.items()
        if key.startswith(a.METRIC_PREFIX)
    }
    # The families, topology and credit follow from the trace; the host does not wait for them.
    assert told == {
        name: value
        for name, value in (trace.metrics or {}).items()
        if name in {*MEASURES, "turns_without_usage"}
    }
    assert told.keys() < (trace.metrics or {}).keys()
    assert not [key for key in root.attributes if key.startswith(a.REWARD_PREFIX)]
    assert trace.rewards


def test_what_users_reward_is_on_the_root_beside_the_measures() -> None:
    """Whoever has the spans cannot compute it again: given rewards ride on the root."""

    def steps(trace: Trace) -> float:
        assert "balance" in (trace.metrics or {}), "a function sees what is built in"
        return len(trace.events)

    memory = InMemorySpanExporter()
    with configured(rewards=[steps]) as (provider, exporter):
        provider.add_span_processor(BatchSpanProcessor(memory))
        orchtrace.team(critic, name="scored", reward=lambda found: 0.5)()
        assert orchtrace.flush()
    (trace,) = exporter.traces
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    told = {
        key.removeprefix(a.REWARD_PREFIX): value
        for key, value in (root.attributes or {}).items()
        if key.startswith(a.REWARD_PREFIX) and key != a.REWARD_RECORDS
    }
    assert told == {"task": 0.5, "steps": len(trace.events)}
    assert trace.rewards.items() > told.items()


def test_a_run_that_nobody_takes_is_measured_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root has its measures; the rest of the score is not computed, on no thread."""
    monkeypatch.setattr(Finished, "take", lambda _: pytest.fail("nobody takes this trace"))
    memory = InMemorySpanExporter()
    observer = Pipeline(Settings())
    with observed(observer) as provider:
        provider.add_span_processor(SimpleSpanProcessor(memory))
        lead()
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    assert a.METRIC_PREFIX + "makespan" in (root.attributes or {})
    assert observer.losses == {}


def test_the_end_of_a_run_is_its_stop() -> None:
    """Scoring takes time that is not the run's: the root ends when the team returned."""
    with capture() as captured:
        lead()
    root = next(span for span in captured.spans if span.parent is None)
    stop = captured.trace.stop
    assert stop is not None
    assert root.start_time is not None
    assert root.end_time is not None
    assert stop.t == (root.end_time - root.start_time) / 1e9


def test_a_late_reward_reaches_amend() -> None:
    """A verdict for a run that is closed goes to the exporters, with the run's id."""
    with configured() as (_, exporter):
        lead()
        orchtrace.record_reward("correctness", 0.5, run_id="ab-cd")
        assert orchtrace.flush()
    ((run_id, reward),) = exporter.rewards
    assert (run_id, reward.component, reward.value) == ("ab-cd", "correctness", 0.5)


def test_a_second_configuration_takes_over() -> None:
    """The last call counts; what the first was given is delivered, then let go of."""
    other = Kept()
    with configured() as (provider, exporter):
        lead()
        orchtrace.configure(tracer_provider=provider, exporters=[other])
        lead()
        assert orchtrace.flush()
        assert (len(exporter.traces), len(other.traces)) == (1, 1)
        assert (exporter.shutdowns, other.shutdowns) == (1, 0)
        mine = [p for p in provider._active_span_processor._span_processors if _is_ours(p)]
        assert len(mine) == 1


def test_the_same_exporter_twice_goes_on() -> None:
    """An exporter that both calls name is not shut down in between."""
    with configured() as (provider, exporter):
        lead()
        orchtrace.configure(tracer_provider=provider, exporters=[exporter])
        lead()
        assert orchtrace.flush()
        assert (len(exporter.traces), exporter.shutdowns) == (2, 0)


def test_configuring_again_after_a_shutdown_traces_again() -> None:
    """A provider that was followed once can be followed again."""
    with configured() as (provider, _):
        lead()
        orchtrace.shutdown()
        lead()
        again = Kept()
        orchtrace.configure(tracer_provider=provider, exporters=[again])
        lead()
        assert orchtrace.flush()
        assert len(again.traces) == 1


def test_an_exporter_of_spans_gets_one_batch_processor() -> None:
    """However often it is configured, spans are sent once."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    try:
        for _ in range(3):
            orchtrace.configure(tracer_provider=provider, exporters=[memory])
        processors = provider._active_span_processor._span_processors
        assert sum(isinstance(one, BatchSpanProcessor) for one in processors) == 1
        lead()
        assert orchtrace.flush()
        assert Counter(span.name for span in memory.get_finished_spans()) == Counter(
            ["invoke_workflow lead", "invoke_agent critic", "execute_tool search", "stop"]
        )
    finally:
        orchtrace.shutdown()
        provider.shutdown()


def _is_ours(processor: object) -> bool:
    return isinstance(processor, Pipeline)


@pytest.mark.swallows_errors
def test_a_builder_that_fails_costs_the_trace_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host gets its result; the loss is counted."""

    def fail(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(pipeline, "build", fail)
    with capture() as captured:
        assert lead() == "found"
    assert captured.traces == []
    assert captured.pipeline.losses == {"traces_failed": 1}


# --- spans of others ----------------------------------------------------------------------


def test_models_that_others_record_are_turns_of_the_agent_that_called() -> None:
    """Through the user's own spans, and with the usage that the other one knows."""

    @orchtrace.agent("writer")
    def writer() -> None:
        with foreign("host").start_as_current_span("mine"):
            facts = {a.OPERATION: "chat", a.INPUT_TOKENS: 3, a.OUTPUT_TOKENS: 4}
            with foreign().start_as_current_span("chat", attributes=facts):
                pass

    with capture() as captured:
        writer()
    (turn,) = captured.trace.turns
    assert (turn.agent, turn.tokens) == ("writer", 7)


def test_a_span_of_others_that_stays_open_is_flagged() -> None:
    """Its model call may never be told; the run says so, and forgets it."""

    @orchtrace.team
    def host() -> None:
        left.append(foreign().start_span("left open"))

    left: list[Any] = []
    with capture() as captured:
        host()
        assert captured.pipeline._owners == {}
        left[0].end()
    assert captured.trace.flags == ("open_spans",)


def test_spans_from_outside_a_run_stay_outside() -> None:
    """A span that hangs below the host's request is not the team's, inline and offline."""

    @orchtrace.team
    def host(request: Any) -> None:
        with (
            otel.use_span(request),
            foreign().start_as_current_span(
                "chat", attributes={a.OPERATION: "chat", a.INPUT_TOKENS: 3}
            ),
        ):
            pass

    with capture() as captured, foreign("http").start_as_current_span("request") as request:
        host(request)
    assert captured.trace.turns == ()
    assert captured.trace.flags == ()


def test_a_pipeline_keeps_to_the_runs_that_it_follows() -> None:
    """One that was shut down stays on the provider, and takes nothing of its successor's."""

    @orchtrace.team
    def host() -> None:
        with foreign().start_as_current_span("chat", attributes={a.OPERATION: "chat"}):
            sizes.extend(len(one._owners) for one in pipelines)

    sizes: list[int] = []
    with capture() as captured:
        other = Pipeline(Settings())
        captured.provider.add_span_processor(other)
        pipelines = [captured.pipeline, other]
        host()
    assert sizes == [1, 0]
    assert len(captured.trace.turns) == 1


# --- bounds -------------------------------------------------------------------------------


def test_more_open_runs_than_allowed_give_up_the_oldest() -> None:
    """What there is of it is exported and flagged; the loss is counted."""
    with capture(settings=Settings(max_open_runs=2)) as captured:
        runs = [spans.start_run(f"run{number}") for number in range(4)]
        for run in runs:
            assert run is not None
            run.close()
    names = {trace.trace_id: trace.flags for trace in captured.traces}
    assert [names[run.id] for run in runs if run is not None] == [
        ("given_up", "no_stop"),
        ("given_up", "no_stop"),
        (),
        (),
    ]
    assert len(captured.traces) == 4
    assert captured.pipeline.losses == {"runs_given_up": 2}


def test_a_run_that_is_too_old_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its age is looked at when another one opens; its rewards so far are kept."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time_ns=lambda: 2 * 10**18)
    with capture(settings=Settings(max_run_seconds=60)) as captured:
        monkeypatch.setattr(pipeline, "time", clock)
        old = spans.start_run("old")
        assert old is not None
        old.record(Reward(id="r", component="style", value=1.0))
        now[0] = 59.0
        lead()
        assert captured.pipeline.losses == {}
        now[0] = 60.0
        lead()
        assert captured.pipeline.losses == {"runs_given_up": 1}
        old.close()
    given_up = next(trace for trace in captured.traces if trace.trace_id == old.id)
    assert {"given_up", "no_stop"} <= set(given_up.flags)
    assert given_up.rewards["style"] == 1.0
    assert len(captured.traces) == 3


def test_a_run_that_was_given_up_tells_a_collector_so() -> None:
    """Its root carries the flag and the rewards; built from OTLP it is whole, and flagged."""
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    with capture(settings=Settings(max_open_runs=1)) as captured:
        old = spans.start_run("old")
        assert old is not None
        lead()
        old.record(Reward(id="r", component="style", value=1.0))
        old.close()
    data = encoder.encode_spans(captured.spans).SerializeToString()
    received = {trace.trace_id: trace for trace in otlp.traces(otlp.read_protobuf(data))}
    assert received[old.id].flags == ("given_up",)
    assert received[old.id].rewards["style"] == 1.0


def test_more_spans_than_allowed_are_not_kept() -> None:
    """The run is built of those that came first, flagged, and the rest counted."""

    @orchtrace.team
    def busy() -> None:
        for _ in range(20):
            critic()
        for _ in range(20):
            with foreign().start_as_current_span("other"):
                pass

    with capture(settings=Settings(max_spans=10)) as captured:
        busy()
    assert "truncated" in captured.trace.flags
    assert captured.pipeline.losses == {"spans_over_limit": 20 + 20 + 20 + 1 - 10}
    assert list(schema.check(captured.trace.to_dict())) == []


def test_spans_of_others_that_stay_open_are_bounded() -> None:
    """A host that opens spans and never ends them fills no table of ours."""

    @orchtrace.team
    def leaking() -> None:
        left.extend(foreign().start_span("left open") for _ in range(50))
        sizes.append(len(captured.pipeline._owners))

    left: list[Any] = []
    sizes: list[int] = []
    with capture(settings=Settings(max_spans=10)) as captured:
        leaking()
        for span in left:
            span.end()
    assert sizes == [10]
    assert captured.pipeline.losses == {"spans_over_limit": 40}


def test_what_is_open_at_the_shutdown_is_given_up() -> None:
    """A process that ends in the middle of a run delivers what there is of it."""
    with configured() as (_, exporter):
        run = spans.start_run("cut")
        assert run is not None
        orchtrace.shutdown()
        run.close()
    (trace,) = exporter.traces
    assert (trace.trace_id, trace.flags) == (run.id, ("given_up", "no_stop"))


def test_what_an_activation_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, announcements and messages that wait too long are forgotten and flagged."""

    @orchtrace.agent
    def nobody() -> None: ...

    @orchtrace.team
    def forgetful() -> None:
        for _ in range(4):
            nobody()
            orchtrace.spawn("somebody")
            orchtrace.message("somebody", "hello")
        with orchtrace.aggregate():
            pass

    monkeypatch.setattr(_activation, "MOST_WAITING", 3)
    monkeypatch.setattr(_run, "MOST_WAITING", 3)
    with capture() as captured:
        forgetful()
    assert captured.trace.flags == (
        "announcements_forgotten",
        "messages_forgotten",
        "results_forgotten",
    )


def test_spans_that_end_after_their_run_are_counted() -> None:
    """A task that outlived its team is left to the collector."""

    @orchtrace.team
    async def host() -> None:
        tasks.append(asyncio.ensure_future(slow()))
        await asyncio.sleep(0)

    @orchtrace.agent
    async def slow() -> None:
        await gate.wait()

    async def main() -> None:
        await host()
        gate.set()
        await tasks[0]

    tasks: list[Any] = []
    gate = asyncio.Event()
    with capture() as captured:
        asyncio.run(main())
    assert captured.trace.flags == ("open_spans",)
    assert captured.pipeline.losses == {"late_spans": 1}


def test_losses_are_said_once_and_told_at_the_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    """One warning a kind while it goes on, and the sums at the end."""
    observer = Pipeline(Settings())
    with caplog.at_level(logging.WARNING, "orchtrace_otel"):
        for _ in range(5):
            observer.lose("a kind of this test")
        observer.lose("another kind of this test", 7)
        observer.shutdown()
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "orchtrace lost data (a kind of this test)",
        "orchtrace lost data (another kind of this test)",
        "orchtrace lost data in this process: a kind of this test: 5, another kind of this test: 7",
    ]


def test_losses_of_many_threads_add_up() -> None:
    """No count is lost between them."""
    observer = Pipeline(Settings())
    threads = [
        threading.Thread(target=lambda: [observer.lose("raced") for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert observer.losses["raced"] == 4_000


# --- nothing grows ------------------------------------------------------------------------


class HostError(Exception):
    """What a host raises."""


@orchtrace.team
def failing() -> None:
    """A run that ends with an error."""
    critic()
    raise HostError


@orchtrace.agent
def stream() -> Iterator[int]:
    """An agent whose consumer may leave."""
    yield from range(5)


@orchtrace.team
def abandoning() -> None:
    """A run that drops a generator in the middle."""
    next(iter(stream()))


@orchtrace.team
async def gathering() -> None:
    """A run of tasks, one of which is cancelled."""
    task = asyncio.ensure_future(waiting())
    await asyncio.gather(working(), working())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@orchtrace.agent
async def waiting() -> None:
    """An agent that is cancelled."""
    await asyncio.Event().wait()


@orchtrace.agent
async def working() -> None:
    """An agent that is not."""
    await asyncio.sleep(0)


@orchtrace.team
def leaving_spans_open() -> None:
    """A run in which another instrumentation forgets to end a span."""
    foreign().start_span("left open")
    orchtrace.message("nobody", "unread")
    orchtrace.spawn("nobody")


def failing_quietly() -> None:
    """A run whose error the host expects."""
    with suppress(HostError):
        failing()


def gathering_once() -> None:
    """A run of tasks in a loop of its own."""
    asyncio.run(gathering())


def _round() -> None:
    lead()
    with suppress(HostError):
        failing()
    abandoning()
    leaving_spans_open()
    next(iter(stream()))


class Discards:
    """An exporter that keeps nothing."""

    def export(self, trace: Trace) -> None: ...

    def amend(self, run_id: str, reward: Reward) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None: ...


def test_nothing_grows_with_the_number_of_runs() -> None:
    """After a thousand runs of every kind the tables are empty and no object is left."""
    observer = Pipeline(Settings(), [Discards()], synchronous=True)

    async def some(times: int) -> None:
        for _ in range(times):
            await gathering()

    with observed(observer):
        for _ in range(5):
            _round()
        asyncio.run(some(5))
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(160):
            _round()
        asyncio.run(some(200))
        gc.collect()
        gained = len(gc.get_objects()) - before
    assert observer._runs == {}
    assert observer._owners == {}
    # Some of the interpreter's own come and go; a leak would be one an each of the 1,000 runs.
    assert gained < 100


def _ours(found: list[Any]) -> Counter[str]:
    return Counter(
        type(one).__name__ for one in found if type(one).__module__.startswith("orchtrace_otel")
    )


@pytest.mark.parametrize(
    "host", [lead, abandoning, leaving_spans_open, failing_quietly, gathering_once]
)
def test_no_activation_waits_for_the_garbage_collector(host: Callable[[], object]) -> None:
    """What a run needed is free when it is over: a collector's pauses are the host's."""
    observer = Pipeline(Settings(), [Discards()], synchronous=True)
    with observed(observer):
        host()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(100):
                host()
            gc.collect()
            assert _ours(gc.garbage) == {}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


# --- a collector that is down --------------------------------------------------------------


def test_a_collector_that_is_down_costs_the_application_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on and ends in time; one warning says what is wrong."""
    otlp_exporter = pytest.importorskip("orchtrace_otlp")
    import socket
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    exporter = otlp_exporter.open_http(f"http://127.0.0.1:{port}")
    provider = TracerProvider(shutdown_on_exit=False)
    with caplog.at_level(logging.WARNING):
        try:
            orchtrace.configure(tracer_provider=provider, exporters=[exporter])
            began = time.monotonic()
            for _ in range(50):
                assert lead() == "found"
            took = time.monotonic() - began
            orchtrace.shutdown()
            provider.shutdown()
            closed = time.monotonic() - began - took
        finally:
            orchtrace.shutdown()
    # Generous: fifty small runs take hundredths of a second, and a refusal comes at once.
    assert took < 5
    assert closed < 20
    said = [one.getMessage() for one in caplog.records]
    assert [text for text in said if "takes no spans" in text] == said[:1]
    assert said[1:] == ["200 spans did not reach the OTLP collector"]


def test_unknown_runs_are_not_found() -> None:
    """Only runs that are open here are."""
    with capture() as captured:
        run = spans.start_run("here")
        assert run is not None
        assert captured.pipeline.find(run.id) is run
        run.close()
        assert captured.pipeline.find(run.id) is None
