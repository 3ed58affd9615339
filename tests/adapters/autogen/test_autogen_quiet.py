"""When nobody listens, or stops listening half-way, the host runs as it is."""

import asyncio
import gc
import weakref
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
)

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from orchtrace_otel.testing import capture
from tests.adapters.autogen.versions import has_nested_teams


def _said(result) -> list[str]:
    return [message.to_text() for message in result.messages]


def test_suppressed_instrumentation_starts_nothing(traced, plain) -> None:
    """Under OpenTelemetry's switch for instrumentations no span is made."""
    team = RoundRobinGroupChat([plain("a"), plain("b")], max_turns=2)
    with suppress_instrumentation():
        result = asyncio.run(team.run(task="go"))
    assert _said(result) == ["go", "a 1", "b 1"]
    assert traced.started == 0


def test_sampled_out_run_is_the_hosts_own(plain) -> None:
    """A provider of the user's that drops the root leaves the run untraced and unharmed."""
    provider = TracerProvider(sampler=ALWAYS_OFF)
    before = spans.use(spans.Tracing(provider.get_tracer("none")))
    try:
        with orchtrace.instrument("autogen"):
            team = RoundRobinGroupChat([plain("a"), plain("b")], max_turns=2)
            team_said = _said(asyncio.run(team.run(task="go")))
            agent_said = _said(asyncio.run(plain("c").run(task="go")))
    finally:
        spans.use(before)
    assert (team_said, agent_said) == (["go", "a 1", "b 1"], ["go", "c 1"])


class _DropsTheFirst(Sampler):
    """Drops the first root, and all below it."""

    def __init__(self) -> None:
        self.roots: list[str] = []

    def should_sample(
        self, parent_context, trace_id, name, kind=None, attributes=None, *_, **__
    ) -> SamplingResult:
        self.roots.append(name)
        decision = Decision.RECORD_AND_SAMPLE if self.roots[1:] else Decision.DROP
        return SamplingResult(decision, attributes)

    def get_description(self) -> str:
        return "drops the first"


@dataclass
class _Left:
    turns: int


class _Echo(RoutedAgent):
    @message_handler
    async def on_left(self, message: _Left, ctx: MessageContext) -> None:
        other = "ping" if self.id.type == "pong" else "pong"
        if message.turns > 1:
            await self.publish_message(_Left(message.turns - 1), TopicId(other, "default"))
        elif message.turns == 1:
            await self.send_message(_Left(0), AgentId(other, "default"))
        OVER.append(message.turns)


OVER: list[int] = []


async def _echo() -> None:
    runtime = SingleThreadedAgentRuntime()
    for name in ("ping", "pong"):
        await _Echo.register(runtime, name, lambda: _Echo(""))
        await runtime.add_subscription(TypeSubscription(name, name))
    runtime.start()
    await runtime.publish_message(_Left(5), TopicId("ping", "default"))
    await runtime.stop_when_idle()


@pytest.mark.parametrize("around", [lambda work: work, orchtrace.team("office")])
def test_agents_of_the_core_begin_no_runs_in_one_that_is_sampled_out(around) -> None:
    """What is sent on and on in a run that the sampler dropped belongs to that run."""
    OVER.clear()
    sampler = _DropsTheFirst()
    provider = TracerProvider(sampler=ParentBased(sampler))
    before = spans.use(spans.Tracing(provider.get_tracer("none")))
    try:
        with orchtrace.instrument("autogen"):
            asyncio.run(around(_echo)())
    finally:
        spans.use(before)
    assert sorted(OVER) == [0, 1, 2, 3, 4, 5]
    assert len(sampler.roots) == 1


@pytest.mark.parametrize("is_sent", [True, False])
def test_agents_of_the_core_begin_no_runs_where_instrumentation_is_suppressed(
    is_sent, traced
) -> None:
    """The runtime's queue knows nothing of the switch; what was sent under it does."""

    async def main() -> None:
        OVER.clear()
        runtime = SingleThreadedAgentRuntime()
        for name in ("ping", "pong"):
            await _Echo.register(runtime, name, lambda: _Echo(""))
            await runtime.add_subscription(TypeSubscription(name, name))
        runtime.start()
        with suppress_instrumentation():
            if is_sent:
                await runtime.send_message(_Left(3), AgentId("ping", "default"))
            else:
                await runtime.publish_message(_Left(3), TopicId("ping", "default"))
        await runtime.stop_when_idle()

    asyncio.run(main())
    assert sorted(OVER) == [0, 1, 2, 3]
    assert traced.started == 0
    asyncio.run(orchtrace.team("office")(main)())
    assert [event.verb for event in traced.trace.events] == ["begin", "stop"]


@orchtrace.agent("helper")
def _help() -> None:
    OVER.append(0)


class _Asking(BaseChatAgent):
    """An agent that asks another one, in the task of a runtime that knows of no run."""

    produced_message_types = (TextMessage,)

    def __init__(self, name: str, asked: BaseChatAgent) -> None:
        super().__init__(name, "asks")
        self._asked = asked

    async def on_messages(self, messages, cancellation_token) -> Response:
        _help()
        await self._asked.run(task="help")
        return Response(chat_message=TextMessage(content="done", source=self.name))

    async def on_reset(self, cancellation_token) -> None: ...


@has_nested_teams
@pytest.mark.parametrize("around", [lambda work: work, orchtrace.team("office")])
def test_a_team_on_the_hosts_runtime_begins_no_runs_in_one_that_is_sampled_out(
    around, plain
) -> None:
    """Agents that its agents call, and teams in it, are part of the run that was dropped."""
    OVER.clear()
    sampler = _DropsTheFirst()
    provider = TracerProvider(sampler=ParentBased(sampler))

    async def main() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()

        async def work() -> None:
            inner = RoundRobinGroupChat([_Asking("b", plain("c"))], max_turns=1, name="inner")
            members = [_Asking("a", plain("d")), inner]
            await RoundRobinGroupChat(members, max_turns=2, runtime=runtime).run(task="go")

        await around(work)()
        await runtime.stop()

    before = spans.use(spans.Tracing(provider.get_tracer("none")))
    try:
        with orchtrace.instrument("autogen"):
            asyncio.run(main())
    finally:
        spans.use(before)
    assert len(OVER) == 2
    assert len(sampler.roots) == 1


@has_nested_teams
def test_a_team_on_the_hosts_runtime_begins_no_runs_where_instrumentation_is_suppressed(
    traced, plain
) -> None:
    """Nor do agents that its agents call, and teams in it."""
    OVER.clear()

    async def main() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        inner = RoundRobinGroupChat([_Asking("b", plain("c"))], max_turns=1, name="inner")
        team = RoundRobinGroupChat(
            [_Asking("a", plain("d")), inner], max_turns=2, runtime=runtime, name="outer"
        )
        with suppress_instrumentation():
            await team.run(task="go")
        await runtime.stop()

    asyncio.run(main())
    assert len(OVER) == 2
    assert traced.started == 0


def test_without_a_provider_nothing_is_traced(plain) -> None:
    """Instrumented, but with nobody to listen: the team runs as it is."""
    before = spans.use(None)
    try:
        with orchtrace.instrument("autogen"):
            team = RoundRobinGroupChat([plain("a")], max_turns=1)
            assert _said(asyncio.run(team.run(task="go"))) == ["go", "a 1"]
    finally:
        spans.use(before)


def test_run_that_outlives_the_instrumentation_ends(plain) -> None:
    """Taken out half-way, we still end what we began, and begin nothing more."""

    async def half() -> None:
        handle = orchtrace.instrument("autogen")
        stream = RoundRobinGroupChat([plain("a"), plain("b")], max_turns=4).run_stream(task="go")
        await anext(stream)
        handle.uninstrument()
        async for _ in stream:
            pass

    with capture() as captured:
        asyncio.run(half())
    assert captured.open == {}
    assert captured.trace.stop["status"] == "ok"


def test_team_that_runs_on_after_its_consumer_left(plain) -> None:
    """On a runtime of the host's a team goes on: its run has stopped, its turns are late spans."""

    async def leave() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        agents = [plain("a"), plain("b")]
        team = RoundRobinGroupChat(agents, max_turns=6, runtime=runtime)
        stream = team.run_stream(task="go")
        await anext(stream)
        await stream.aclose()
        await runtime.stop_when_idle()
        assert [agent.spoke for agent in agents] == [3, 3]

    with capture() as captured, orchtrace.instrument("autogen"):
        asyncio.run(leave())
    assert (captured.open, captured.ended_twice) == ({}, [])
    assert captured.trace.stop["stop_reason"] == "consumer_closed"
    turns = [span for span in captured.spans if "orchtrace.opens" in span.attributes]
    assert [span.name for span in turns].count("invoke_agent a") == 3
    assert [span.name for span in turns].count("invoke_agent b") == 3
    roots = {span.context.trace_state["orchtrace"] for span in turns}
    assert roots == {captured.trace.trace_id.rpartition("-")[2]}
    assert captured.pipeline.losses["late_spans"] > 0


def test_team_whose_caller_is_cancelled_is_not_kept(plain, caplog) -> None:
    """The caller's task holds its error's frames, and these the team and its runtime."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    gone: list[weakref.ref[Any]] = []

    async def leave() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat([plain("a", lambda _: asyncio.sleep(60))], runtime=runtime)
        gone.extend((weakref.ref(team), weakref.ref(runtime)))
        caller = asyncio.create_task(team.run(task="go"))
        await asyncio.sleep(0.02)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)

    with capture() as captured, orchtrace.instrument("autogen"):
        asyncio.run(leave())
        gc.collect()
        assert [ref() for ref in gone] == [None, None]
    assert captured.trace.stop["stop_reason"] == "cancelled"


def test_wrong_arguments_fail_where_they_did(plain) -> None:
    """A call that AutoGen refuses is refused at the same place, and is no run."""
    agent = plain("a")
    team = RoundRobinGroupChat([agent], max_turns=1)
    with capture() as captured, orchtrace.instrument("autogen"):
        for entry in (team.run_stream, agent.run_stream, agent.run):
            with pytest.raises(TypeError, match="tsk"):
                entry(tsk="go")
    assert captured.started == 0


def test_team_called_in_a_task_that_outlived_its_run_is_a_run_of_its_own(traced, plain) -> None:
    """The run that the task came from is over, so that what begins in it is not that run's."""
    tasks: list[asyncio.Task[object]] = []

    async def outlive() -> None:
        may_go_on = asyncio.Event()

        async def go_on() -> None:
            await may_go_on.wait()
            await RoundRobinGroupChat([plain("b")], max_turns=1).run(task="go")

        def leave(_: int) -> str:
            tasks.append(asyncio.create_task(go_on()))
            return "left"

        await RoundRobinGroupChat([plain("a", leave)], max_turns=1).run(task="go")
        may_go_on.set()
        await tasks[0]

    asyncio.run(outlive())
    first, second = traced.traces
    assert [event.verb for event in first.events] == [event.verb for event in second.events]
    assert [
        [event["chosen"] for event in trace.events if event.verb == "decide"]
        for trace in (first, second)
    ] == [["a"], ["b"]]
