"""The gRPC worker runtime: a host and two workers, each a process, and one trace."""

import base64
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("grpc")
pytest.importorskip("autogen_ext.runtimes.grpc")

from orchtrace_otel import otlp, schema

COMMON = textwrap.dedent("""
    import asyncio, base64, sys
    from dataclasses import dataclass
    from autogen_core import (
        AgentId, MessageContext, RoutedAgent, TopicId, TypeSubscription, message_handler,
        try_get_known_serializers_for_type,
    )
    from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    import orchtrace_otel as orchtrace
    from orchtrace_otel.testing import capture

    @dataclass
    class Ask:
        text: str

    @dataclass
    class Note:
        text: str

    class Clerk(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
            first = await self.send_message(Ask("one"), AgentId("expert", "default"))
            await self.send_message(Ask("two"), AgentId("expert", "default"))
            await self.publish_message(Note("told"), TopicId("news", "default"))
            return first

    class Expert(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
            if message.text == "one":
                await self.send_message(Ask("back"), AgentId("helper", "default"))
            return Ask(message.text + "!")

    class Helper(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
            return message

    class Reader(RoutedAgent):
        @message_handler
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            # When this is over, and has been recorded.
            asyncio.get_running_loop().call_soon(print_read)

    def print_read():
        print("read", flush=True)

    async def worker(address, **kinds):
        runtime = GrpcWorkerAgentRuntime(address)
        for kind in (Ask, Note):
            runtime.add_message_serializer(try_get_known_serializers_for_type(kind))
        await runtime.start()
        for name, kind in kinds.items():
            await kind.register(runtime, name, lambda kind=kind: kind(""))
        return runtime

    def hand_over(captured):
        data = encode_spans(captured.spans).SerializeToString()
        print("spans", base64.b64encode(data).decode(), flush=True)
""")

ECHO = """
class Echo(RoutedAgent):
    @message_handler
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        if len(message.text) < 6:
            other = "pong" if self.id.type == "ping" else "ping"
            await self.publish_message(Note(message.text + "!"), TopicId(other, "default"))
        else:
            OVER.set()

OVER = asyncio.Event()

async def main():
    address, names = "127.0.0.1:" + sys.argv[1], ("ping", "pong")
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    workers = [await worker(address, **{name: Echo}) for name in names]
    for runtime, name in zip(workers, names):
        await runtime.add_subscription(TypeSubscription(name, name))
    await workers[0].publish_message(Note("hi"), TopicId("pong", "default"))
    await asyncio.wait_for(OVER.wait(), 30)
    for runtime in workers:
        await runtime.stop()
    await host.stop()
    print("up", flush=True)

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(main())
hand_over(captured)
"""

DROPPED = (
    """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from orchtrace_otel import spans

class DropsTheFirst(Sampler):
    def should_sample(self, parent_context, trace_id, name, *_, **__):
        roots.append(name)
        return SamplingResult(Decision.RECORD_AND_SAMPLE if roots[1:] else Decision.DROP)

    def get_description(self):
        return "drops the first"

roots = []
provider = TracerProvider(sampler=ParentBased(DropsTheFirst()))
spans.use(spans.Tracing(provider.get_tracer("dropped")))
"""
    + ECHO.partition("with capture()")[0]
    + """
with orchtrace.instrument("autogen"):
    asyncio.run(main())
print("roots", len(roots), flush=True)
"""
)

SUPPRESSED = (
    ECHO.partition("async def main()")[0]
    + """
from opentelemetry.instrumentation.utils import suppress_instrumentation

class Asked(Echo):
    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        await self.publish_message(Note(message.text), TopicId("ping", "default"))
        return message

async def main():
    address, names = "127.0.0.1:" + sys.argv[1], ("ping", "pong")
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    workers = [await worker(address, **{name: Asked}) for name in names]
    for runtime, name in zip(workers, names):
        await runtime.add_subscription(TypeSubscription(name, name))
    with suppress_instrumentation():
        await workers[0].publish_message(Note("hi"), TopicId("pong", "default"))
        await asyncio.wait_for(OVER.wait(), 30)
        OVER.clear()
        await workers[0].send_message(Ask("hi"), AgentId("pong", "default"))
        await asyncio.wait_for(OVER.wait(), 30)
    for runtime in workers:
        await runtime.stop()
    await host.stop()

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(orchtrace.team("office")(main)())
print("spans of", *(event.agent for event in captured.trace.events), captured.started, flush=True)
"""
)

CAUGHT = """
class Failing(RoutedAgent):
    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        raise ValueError(message.text)

class Patient(RoutedAgent):
    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        try:
            return await self.send_message(message, AgentId("failing", "default"))
        except Exception as error:
            return Ask("caught " + str(error))

async def main():
    address = "127.0.0.1:" + sys.argv[1]
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    workers = [await worker(address, failing=Failing), await worker(address, patient=Patient)]
    workers[1]._next_request_id = 100
    answer = await workers[0].send_message(Ask("no"), AgentId("patient", "default"))
    for runtime in workers:
        await runtime.stop()
    await host.stop()
    print("answer", answer.text, flush=True)

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(main())
hand_over(captured)
"""

HOST = """
async def main():
    host = GrpcWorkerAgentRuntimeHost("127.0.0.1:" + sys.argv[1])
    host.start()
    print("up", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await host.stop()

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(main())
hand_over(captured)
"""

REMOTE = """
async def main():
    runtime = await worker("127.0.0.1:" + sys.argv[1], expert=Expert, reader=Reader)
    await runtime.add_subscription(TypeSubscription("news", "reader"))
    # AutoGen's host mixes up requests of two workers to a third under one number.
    runtime._next_request_id = 100
    print("up", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await runtime.stop()

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(main())
hand_over(captured)
"""

CALLER = """
async def main():
    runtime = await worker("127.0.0.1:" + sys.argv[1], clerk=Clerk, helper=Helper)

    @orchtrace.team("office")
    async def office():
        answer = await runtime.send_message(Ask("go"), AgentId("clerk", "default"))
        assert answer == Ask("one!"), answer
        await asyncio.to_thread(sys.stdin.readline)

    await office()
    assert await runtime.send_message(Ask("two"), AgentId("expert", "default")) == Ask("two!")
    await runtime.stop()

with capture() as captured, orchtrace.instrument("autogen"):
    print("up", flush=True)
    asyncio.run(main())
hand_over(captured)
"""


class Process:
    """A process of the test, and what it says."""

    def __init__(self, code: str, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMON + textwrap.dedent(code), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self, word: str) -> str:
        """Wait for a line that begins with `word`; return the rest of it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == word:
                return rest
        pytest.fail(f"the process ended before it said {word!r}")

    def finish(self) -> bytes:
        """Let it go on to its end; return its spans as OTLP."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        data = base64.b64decode(self.hear("spans"))
        assert self._process.wait(30) == 0
        return data

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_run_of_three_processes_is_one_trace_with_its_causes(read) -> None:
    """What the workers record is one run: requests nest, answers return, news is read."""
    port = _free_port()
    processes = []
    try:
        for code in (HOST, REMOTE, CALLER):
            processes.append(Process(code, port))
            processes[-1].hear("up")
        host, remote, caller = processes
        remote.hear("read")
        received = [otlp.read_protobuf(p.finish()) for p in (caller, remote, host)]
    finally:
        for process in processes:
            process.kill()
    assert received[2] == []
    office, alone = otlp.traces([record for records in received for record in records])
    assert read.outline(office) == [
        "0 user begin office",
        "1 office delegate clerk <- causal 0",
        "2 office begin clerk <- causal 1",
        "3 clerk delegate expert <- causal 2",
        "4 clerk begin expert <- causal 3",
        "5 expert delegate helper <- causal 4",
        "6 expert begin helper <- causal 5",
        "7 helper return expert",
        "8 expert return clerk <- causal 5, return 7",
        "9 clerk delegate expert <- causal 3, return 8",
        "10 clerk begin expert <- causal 9",
        "11 expert return clerk",
        "12 clerk message news <- causal 9, return 11",
        "13 clerk return office <- causal 12",
        "14 clerk spawn reader <- message 12, spawn 12",
        "15 reader return clerk",
        "16 office stop <- causal 1, return 13",
    ]
    assert [(event.agent, event.verb) for event in alone.events] == [
        ("user", "begin"),
        ("orchestrator", "delegate"),
        ("orchestrator", "begin"),
        ("expert", "return"),
        ("orchestrator", "stop"),
    ]
    lives = [e["instance"] for e in office.events if e.get("to") == "expert" and e.verb == "begin"]
    assert len(lives) == 2
    assert len(set(lives)) == 1
    for trace in (office, alone):
        assert trace.flags == ()
        assert list(schema.check(trace.to_dict())) == []


def test_workers_go_on_after_the_run_of_who_published(read) -> None:
    """Nobody waits for what is published: all that comes of it follows from it all the same."""
    process = Process(ECHO, _free_port())
    try:
        process.hear("up")
        (trace,) = otlp.traces(otlp.read_protobuf(process.finish()))
    finally:
        process.kill()
    assert read.outline(trace) == [
        "0 user begin orchestrator",
        "1 orchestrator message pong <- causal 0",
        "2 orchestrator spawn pong <- message 1, spawn 1",
        "3 pong message ping <- causal 2",
        "4 pong return orchestrator <- causal 3",
        "5 pong spawn ping <- message 3, spawn 3",
        "6 ping message pong <- causal 5",
        "7 ping return pong <- causal 6",
        "8 ping delegate pong <- causal 6, message 6",
        "9 pong message ping <- causal 8",
        "10 pong return ping <- causal 9",
        "11 pong delegate ping <- causal 9, message 9",
        "12 ping message pong <- causal 11",
        "13 ping return pong <- causal 12",
        "14 ping delegate pong <- causal 12, message 12",
        "15 pong return ping",
        "16 orchestrator stop <- causal 1",
    ]
    assert trace.flags == ("late_spans",)


def test_workers_begin_no_runs_in_one_that_is_sampled_out() -> None:
    """What the sampler of who publishes has dropped is dropped wherever it goes on."""
    process = Process(DROPPED, _free_port())
    try:
        process.hear("up")
        assert process.hear("roots") == "1"
    finally:
        process.kill()


def test_workers_record_nothing_of_what_is_sent_where_instrumentation_is_suppressed() -> None:
    """Neither as runs of their own nor in the run of who sends, wherever it goes on."""
    process = Process(SUPPRESSED, _free_port())
    try:
        assert process.hear("spans") == "of user office 2"
    finally:
        process.kill()


def test_an_error_that_who_asked_has_caught_is_not_the_runs(read) -> None:
    """A worker that fails to answer is in error; the run in which somebody made do is not."""
    process = Process(CAUGHT, _free_port())
    try:
        assert process.hear("answer") == "caught no"
        (trace,) = otlp.traces(otlp.read_protobuf(process.finish()))
    finally:
        process.kill()
    ends = [(event.verb, event.agent, event["status"]) for event in trace.events[-3:]]
    assert ends == [
        ("return", "failing", "error"),
        ("return", "patient", "ok"),
        ("stop", "orchestrator", "ok"),
    ]
    assert trace.stop["stop_reason"] == "information_complete"
