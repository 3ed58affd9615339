"""Agents of the core without agentchat: a run for each call of the host's into a runtime."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    BaseAgent,
    ClosureAgent,
    ClosureContext,
    DefaultInterventionHandler,
    DefaultTopicId,
    DropMessage,
    FunctionCall,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)
from autogen_core.exceptions import MessageDroppedException
from autogen_core.tool_agent import ToolAgent, ToolExecutionException
from autogen_core.tools import FunctionTool

import orchtrace_otel as orchtrace
from orchtrace_otel import Trace


@dataclass
class Ask:
    """A question; the agent that gets it answers."""

    text: str


@dataclass
class Note:
    """Something to know."""

    text: str


class Echo(RoutedAgent):
    """Answers at once."""

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        if message.text == "fail":
            msg = "no"
            raise LookupError(msg)
        return Ask(message.text * 2)


class Clerk(RoutedAgent):
    """Asks two agents, then tells the result to a topic."""

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        answer = await self.send_message(message, AgentId("echo", "default"))
        answer = await self.send_message(answer, AgentId("echo", "default"))
        await self.publish_message(Note(answer.text), TopicId("news", "default"))
        return answer

    @message_handler
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await self.publish_message(Note(message.text), TopicId("news", "default"))


class Reader(RoutedAgent):
    """Reads."""

    @message_handler
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        if message.text == "fail":
            msg = "no"
            raise LookupError(msg)


async def _office(**kwargs) -> SingleThreadedAgentRuntime:
    runtime = SingleThreadedAgentRuntime(**kwargs)
    await Echo.register(runtime, "echo", lambda: Echo("echo"))
    await Clerk.register(runtime, "clerk", lambda: Clerk("clerk"))
    for name in ("reader", "other"):
        await Reader.register(runtime, name, lambda name=name: Reader(name))
        await runtime.add_subscription(TypeSubscription("news", name))
    runtime.start()
    return runtime


def test_send_is_a_run_of_nested_activations_and_the_news_that_came_of_it(traced, read) -> None:
    """What is sent is answered inside its sender; the run waits for what was published."""

    async def ask() -> Ask:
        runtime = await _office()
        answer = await runtime.send_message(Ask("a"), AgentId("clerk", "default"))
        await runtime.stop_when_idle()
        return answer

    assert asyncio.run(ask()) == Ask("aaaa")
    assert read.outline(traced.trace) == [
        "0 user begin orchestrator",
        "1 orchestrator spawn clerk <- spawn 0",
        "2 clerk spawn echo <- spawn 1",
        "3 echo return clerk",
        "4 clerk delegate echo <- causal 1, return 3",
        "5 echo return clerk",
        "6 clerk message news <- causal 1, return 5",
        "7 clerk return orchestrator <- causal 6",
        "8 clerk spawn reader <- message 6, spawn 6",
        "9 clerk spawn other <- message 6, spawn 6",
        "10 reader return clerk",
        "11 other return clerk",
        "12 orchestrator stop <- causal 10, causal 11, return 7",
    ]
    assert (traced.trace.stop["stop_reason"], traced.trace.stop["stop_detail"]) == (
        "information_complete",
        "idle",
    )
    assert traced.trace.flags == ()


def test_publish_is_a_run_until_nothing_is_left(traced, read) -> None:
    """The host's publish is back at once; the run ends with the last handler."""

    async def tell() -> None:
        runtime = await _office()
        await runtime.add_subscription(TypeSubscription("desk", "clerk"))
        await runtime.publish_message(Note("b"), TopicId("desk", "default"))
        assert traced.traces == []
        await runtime.stop_when_idle()

    asyncio.run(tell())
    assert read.triggers(traced.trace) == [
        ("clerk", ("orchestrator",)),
        ("reader", ("clerk",)),
        ("other", ("clerk",)),
    ]
    assert traced.trace.events[1]["channel"] == "desk"


def test_runs_at_once_on_one_runtime_do_not_mix(traced) -> None:
    """Causes go with the messages, whoever started the runtime."""

    async def many() -> None:
        with_start = orchtrace.team("starter")(_office)
        runtime = await with_start()
        clerk = AgentId("clerk", "default")
        await asyncio.gather(*(runtime.send_message(Ask(str(n)), clerk) for n in range(5)))
        await runtime.stop_when_idle()

    asyncio.run(many())
    starter, *asked = traced.traces
    assert [event.verb for event in starter.events] == ["begin", "stop"]
    assert len(asked) == 5
    assert {tuple(sorted((e.agent, e.verb) for e in t.events)) for t in asked} == {
        tuple(sorted((e.agent, e.verb) for e in asked[0].events))
    }


def test_calls_inside_a_run_are_part_of_it(traced, read) -> None:
    """A decorated function that calls into a runtime opens no second run."""

    @orchtrace.team("outer")
    async def outer() -> None:
        runtime = await _office()
        await runtime.send_message(Ask("a"), AgentId("echo", "default"))
        await runtime.publish_message(Note("b"), TopicId("news", "default"))
        await runtime.stop_when_idle()

    asyncio.run(outer())
    assert read.outline(traced.trace) == [
        "0 user begin outer",
        "1 outer spawn echo <- spawn 0",
        "2 echo return outer",
        "3 outer message news <- causal 0, return 2",
        "4 outer spawn reader <- message 3, spawn 3",
        "5 outer spawn other <- message 3, spawn 3",
        "6 reader return outer",
        "7 other return outer",
        "8 outer stop <- causal 3",
    ]


def test_closure_agent_is_an_agent(traced, read) -> None:
    """A function registered as an agent is traced like a class."""
    heard = []

    async def listen(_: ClosureContext, message: Note, ctx: MessageContext) -> None:
        heard.append(message.text)

    async def tell() -> None:
        runtime = SingleThreadedAgentRuntime()
        await ClosureAgent.register_closure(
            runtime, "ear", listen, subscriptions=lambda: [TypeSubscription("default", "ear")]
        )
        runtime.start()
        await runtime.publish_message(Note("psst"), DefaultTopicId())
        await runtime.stop_when_idle()

    asyncio.run(tell())
    assert heard == ["psst"]
    assert read.triggers(traced.trace) == [("ear", ("orchestrator",))]
    assert "psst" not in traced.trace.to_json()


def test_errors_are_the_hosts_and_the_traces(traced, caplog) -> None:
    """An error that the host gets ends its run; one that the runtime keeps is told as well."""
    caplog.set_level("CRITICAL", logger="autogen_core")

    async def fail() -> None:
        runtime = await _office()
        with pytest.raises(LookupError, match="no"):
            await runtime.send_message(Ask("fail"), AgentId("echo", "default"))
        await runtime.publish_message(Note("fail"), TopicId("news", "default"))
        with pytest.raises(Exception, match="Recipient not found"):
            await runtime.send_message(Ask("x"), AgentId("nobody", "default"))
        await runtime.stop_when_idle()

    asyncio.run(fail())
    stops = {t.events[0]["start_unix_nano"]: t.stop for t in traced.traces}
    found = [(stops[at]["stop_reason"], stops[at]["stop_detail"]) for at in sorted(stops)]
    assert found == [("error", "LookupError"), ("error", "LookupError"), ("error", "Exception")]


def test_runtime_stopped_drops_what_it_has_not_begun(traced) -> None:
    """What is still in the queue is external's fault, and the run ends."""

    async def stop() -> None:
        runtime = await _office()
        await runtime.publish_message(Note("b"), TopicId("news", "default"))
        await runtime.stop()

    asyncio.run(stop())
    stop_event = traced.trace.stop
    assert (stop_event["stop_reason"], stop_event["stop_detail"]) == (
        "external",
        "runtime stopped",
    )


def _who_asked_whom(trace: Trace) -> list[tuple[str, str]]:
    spawns = [event for event in trace.events if event.verb == "spawn"]
    return [(event.agent, event["to"]) for event in spawns]


def test_agent_that_handles_messages_itself_is_an_agent(traced) -> None:
    """One that derives from the base of all agents alone; what it sends on is its own work."""

    class Desk(BaseAgent):
        async def on_message_impl(self, message: Ask, ctx: MessageContext) -> Ask:
            answer = await self.send_message(message, AgentId("echo", "default"))
            await self.publish_message(Note("told"), TopicId("news", "default"))
            return answer

    async def ask() -> Ask:
        runtime = await _office()
        await Desk.register(runtime, "desk", lambda: Desk("a desk"))
        answer = await runtime.send_message(Ask("a"), AgentId("desk", "default"))
        await runtime.stop_when_idle()
        return answer

    assert asyncio.run(ask()) == Ask("aa")
    assert _who_asked_whom(traced.trace) == [
        ("orchestrator", "desk"),
        ("desk", "echo"),
        ("desk", "reader"),
        ("desk", "other"),
    ]


def test_agent_that_overrides_how_it_handles_messages_is_one_activation(traced) -> None:
    """What it does before it hands on to its base class is its work too."""

    class Careful(Echo):
        async def on_message_impl(self, message: Ask, ctx: MessageContext) -> Ask:
            await self.publish_message(Note("asked"), TopicId("news", "default"))
            return await super().on_message_impl(message, ctx)

    async def ask() -> None:
        runtime = await _office()
        await Careful.register(runtime, "careful", lambda: Careful("careful"))
        await runtime.send_message(Ask("a"), AgentId("careful", "default"))
        await runtime.stop_when_idle()

    asyncio.run(ask())
    assert _who_asked_whom(traced.trace) == [
        ("orchestrator", "careful"),
        ("careful", "reader"),
        ("careful", "other"),
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_runtime_that_an_error_ends_drops_what_it_has_not_begun(traced, waits, caplog) -> None:
    """With unhandled errors raised, whoever waits until it is idle gets the handler's."""
    caplog.set_level("CRITICAL", "autogen_core")

    async def tell() -> None:
        runtime = await _office(ignore_unhandled_exceptions=False)
        for number in range(10):
            note = Note("fail" if number == 0 else "go on")
            await runtime.publish_message(note, TopicId("news", "default"))
        for _ in range(20):
            await asyncio.sleep(0)
        with pytest.raises(LookupError):
            await (runtime.stop_when_idle() if waits else runtime.stop())

    asyncio.run(tell())
    assert len(traced.traces) == 10
    reasons = [trace.stop["stop_reason"] for trace in traced.traces]
    assert sorted(set(reasons)) == ["error", "external", "information_complete"]
    assert reasons.count("error") == 1


def test_runtime_that_an_error_ends_by_hand_drops_what_it_has_not_begun(traced, caplog) -> None:
    """Whoever hands its messages out one by one gets the error with the next step."""
    caplog.set_level("CRITICAL", "autogen_core")

    async def step() -> None:
        runtime = SingleThreadedAgentRuntime(ignore_unhandled_exceptions=False)
        await Reader.register(runtime, "reader", lambda: Reader("reader"))
        await runtime.add_subscription(TypeSubscription("news", "reader"))
        for text in ("fail", "go on"):
            await runtime.publish_message(Note(text), TopicId("news", "default"))
        await runtime.process_next()
        for _ in range(20):
            await asyncio.sleep(0)
        with pytest.raises(LookupError):
            await runtime.process_next()

    asyncio.run(step())
    assert [(t.stop["stop_reason"], t.stop["stop_detail"]) for t in traced.traces] == [
        ("error", "LookupError"),
        ("external", "runtime stopped"),
    ]


def test_runtime_that_is_gone_ends_what_nobody_will_handle(traced) -> None:
    """What a handler tells a stopped runtime keeps its run open while that might start again."""

    class Slow(RoutedAgent):
        @message_handler
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            await stopped.wait()
            await self.publish_message(message, TopicId("news", "default"))

    stopped = asyncio.Event()

    async def tell() -> None:
        runtime = await _office()
        await Slow.register(runtime, "slow", lambda: Slow("slow"))
        await runtime.add_subscription(TypeSubscription("desk", "slow"))
        await runtime.publish_message(Note("late"), TopicId("desk", "default"))
        for _ in range(5):
            await asyncio.sleep(0)
        await runtime.stop()
        stopped.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert traced.traces == []

    asyncio.run(tell())
    gc.collect()
    assert _who_asked_whom(traced.trace) == [("orchestrator", "slow")]
    assert traced.trace.stop["stop_reason"] == "external"
    assert traced.trace.stop["stop_detail"] == "runtime stopped"


def test_runtime_that_is_given_up_before_it_is_idle_drops_what_it_has_not_begun(traced) -> None:
    """A handler of the host's that thinks for long holds all messages up."""

    async def tell() -> None:
        thought = asyncio.Event()

        class Censor(DefaultInterventionHandler):
            async def on_publish(self, message: object, *, message_context: object) -> object:
                await thought.wait()
                return message

        runtime = await _office(intervention_handlers=[Censor()])
        await runtime.publish_message(Note("secret"), TopicId("news", "default"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(runtime.stop_when_idle(), 0.01)
        assert traced.trace.stop["stop_detail"] == "runtime stopped"
        thought.set()

    asyncio.run(tell())


@pytest.mark.parametrize("by_hand", [False, True])
def test_published_message_that_an_intervention_drops_ends_its_run(traced, by_hand) -> None:
    """At once, though the runtime serves on."""

    class Censor(DefaultInterventionHandler):
        async def on_publish(self, message: object, *, message_context: MessageContext) -> object:
            return DropMessage if message == Note("secret") else message

    async def tell() -> None:
        runtime = await _office(intervention_handlers=[Censor()])
        if by_hand:
            await runtime.stop()
        for text in ("secret", "fine"):
            await runtime.publish_message(Note(text), TopicId("news", "default"))
        for _ in range(2 if by_hand else 0):
            await runtime.process_next()
        for _ in range(50):
            await asyncio.sleep(0)
        assert [trace.stop["stop_detail"] for trace in traced.traces] == ["idle", "idle"]
        assert sorted(len(_who_asked_whom(trace)) for trace in traced.traces) == [0, 2]
        if not by_hand:
            await runtime.stop()

    asyncio.run(tell())


class ParticularError(LookupError):
    """An error that cannot be made of its arguments alone."""

    def __new__(cls, text: str, *, why: str) -> "ParticularError":
        return super().__new__(cls, text)

    def __init__(self, text: str, *, why: str) -> None:
        super().__init__(text)
        self.why = why


async def _fails(_held: object) -> str:
    raise ParticularError("no", why="so")


async def _fails_in_a_group(held: object) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fails(held))
    return "never"


async def _fails_of_another(held: object) -> str:
    try:
        return await _fails(held)
    except LookupError as error:
        raise RuntimeError(error) from None


async def _waits(_held: object) -> str:
    await asyncio.sleep(60)
    return "late"


async def _plainly(function: Callable[[], Awaitable[object]]) -> object:
    return await function()


@pytest.mark.parametrize(
    "around",
    [
        _plainly,
        orchtrace.team("mine")(_plainly),
        orchtrace.agent("mine")(_plainly),
        orchtrace.team("ours")(orchtrace.agent("mine")(_plainly)),
    ],
    ids=["nothing", "a team", "an agent", "an agent of a team"],
)
@pytest.mark.parametrize(
    ("then", "reason", "detail"),
    [
        (_fails, "error", "ParticularError"),
        (_fails_in_a_group, "error", "ExceptionGroup"),
        (_fails_of_another, "error", "RuntimeError"),
        (_waits, "cancelled", "CancelledError"),
    ],
)
def test_an_error_keeps_no_runtime_whose_messages_nobody_handles(
    traced, then, reason, detail, around
) -> None:
    """A failed task holds its error's frames; the run ends with its runtime all the same."""

    gone: list[weakref.ref[object]] = []

    class Teller(RoutedAgent):
        @message_handler
        async def on_note(self, message: Note, ctx: MessageContext) -> str:
            never = SingleThreadedAgentRuntime()
            gone.append(weakref.ref(never))
            await never.publish_message(message, TopicId("news", "default"))
            return await then(never)

    async def request() -> None:
        runtime = await _office()
        gone.append(weakref.ref(runtime))
        await Teller.register(runtime, "teller", lambda: Teller("teller"))
        await runtime.send_message(Note("x"), AgentId("teller", "default"))

    async def serve() -> None:
        task = asyncio.create_task(around(request))
        _, waiting = await asyncio.wait([task], timeout=0.05)
        for one in waiting:
            one.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(serve())
    gc.collect()
    assert [one() for one in gone] == [None, None]
    assert traced.trace.stop["stop_reason"] == reason
    assert traced.trace.stop["stop_detail"].endswith(detail)


def test_receiver_that_is_none_leaves_no_run_open(traced) -> None:
    """AutoGen refuses it, sooner or later; what is asked then is a run as ever."""

    class Odd:
        type: ClassVar = ["echo"]
        key = "default"

    async def ask() -> None:
        runtime = await _office()
        with pytest.raises(TypeError):
            await runtime.send_message(Ask("a"), Odd())
        assert await runtime.send_message(Ask("a"), AgentId("echo", "default")) == Ask("aa")
        await runtime.stop_when_idle()

    asyncio.run(ask())
    assert _who_asked_whom(traced.trace) == [("orchestrator", "echo")]


def test_messages_of_one_id_end_their_runs(traced) -> None:
    """The host may name messages, and two of them the same."""

    async def tell() -> None:
        runtime = await _office()
        for _ in range(3):
            await runtime.publish_message(Note("x"), TopicId("news", "d"), message_id="mine")
        await runtime.stop_when_idle()

    asyncio.run(tell())
    assert [trace.stop["stop_reason"] for trace in traced.traces] == ["information_complete"] * 3


def test_tool_of_a_tool_agent_that_fails_is_an_error(traced) -> None:
    """AutoGen's own errors of tools are none of Python's ordinary ones."""

    def fail() -> None:
        raise LookupError

    async def ask() -> None:
        runtime = SingleThreadedAgentRuntime()
        tools = [FunctionTool(fail, "Fails.")]
        await ToolAgent.register(runtime, "tools", lambda: ToolAgent("tools", tools))
        runtime.start()
        call = FunctionCall(id="1", name="fail", arguments="{}")
        with pytest.raises(ToolExecutionException):
            await runtime.send_message(call, AgentId("tools", "default"))
        await runtime.stop_when_idle()

    asyncio.run(ask())
    closed = [event for event in traced.trace.events if event.verb in {"tool_result", "return"}]
    assert [event["status"] for event in closed] == ["error", "error"]
    assert traced.trace.stop["stop_reason"] == "error"
    assert traced.trace.stop["stop_detail"].endswith("ToolExecutionException")


def test_message_that_an_intervention_drops_ends_its_run(traced) -> None:
    """The host sees that it was dropped; so does the trace."""

    class Gate(DefaultInterventionHandler):
        async def on_send(self, message, *, message_context, recipient):
            return DropMessage

    async def ask() -> None:
        runtime = await _office(intervention_handlers=[Gate()])
        with pytest.raises(MessageDroppedException):
            await runtime.send_message(Ask("a"), AgentId("echo", "default"))
        await runtime.stop()

    asyncio.run(ask())
    assert traced.trace.stop["stop_detail"].endswith("MessageDroppedException")


def test_call_that_is_cancelled_ends_its_run(traced) -> None:
    """The host that gives up leaves a cancelled run behind, once the handler is done."""

    async def ask() -> None:
        runtime = await _office()
        asking = asyncio.create_task(runtime.send_message(Ask("a"), AgentId("clerk", "default")))
        for _ in range(4):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await runtime.stop_when_idle()

    asyncio.run(ask())
    assert traced.trace.stop["stop_reason"] == "cancelled"


def test_call_that_is_given_up_before_it_is_handled_is_handled_in_its_run(traced) -> None:
    """The runtime hands it out all the same: what comes of it begins no runs of its own."""

    async def ask() -> None:
        runtime = await _office()
        asking = asyncio.create_task(runtime.send_message(Ask("a"), AgentId("clerk", "default")))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await runtime.stop_when_idle()

    asyncio.run(ask())
    assert _who_asked_whom(traced.trace) == [
        ("orchestrator", "clerk"),
        ("clerk", "echo"),
        ("clerk", "reader"),
        ("clerk", "other"),
    ]
    assert traced.trace.stop["stop_reason"] == "cancelled"


@pytest.mark.parametrize("steps", range(12))
def test_runtime_goes_on_whenever_a_call_is_cancelled(traced, steps) -> None:
    """Also where the queue has handed the message out and nobody has begun to handle it."""

    async def office() -> object:
        runtime = await _office()
        asked = asyncio.create_task(runtime.send_message(Ask("hi"), AgentId("clerk", "1")))
        for _ in range(steps):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        await asyncio.wait_for(runtime.stop_when_idle(), 5)
        runtime.start()
        answer = await runtime.send_message(Ask("hi"), AgentId("echo", "1"))
        await asyncio.wait_for(runtime.stop_when_idle(), 5)
        return answer

    assert asyncio.run(office()) == Ask("hihi")


def test_team_and_agents_of_the_core_share_a_runtime(traced, plain) -> None:
    """A team's messages are its own, a core agent's are its own, on one runtime at once."""

    async def both() -> None:
        runtime = await _office()
        team = RoundRobinGroupChat([plain("a"), plain("b")], max_turns=3, runtime=runtime)
        await asyncio.gather(
            team.run(task="go"), runtime.send_message(Ask("a"), AgentId("clerk", "default"))
        )
        await runtime.stop_when_idle()

    asyncio.run(both())
    agents = {t.events[0]["to"]: {e.agent for e in t.events} - {"user"} for t in traced.traces}
    assert agents == {
        "RoundRobinGroupChat": {"RoundRobinGroupChat", "a", "b"},
        "orchestrator": {"orchestrator", "clerk", "echo", "reader", "other"},
    }


def test_team_behind_an_agent_of_the_core_is_part_of_its_run(traced, plain, read) -> None:
    """A handler that runs a team spawns it."""

    class Host(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
            await RoundRobinGroupChat([plain("a")], max_turns=1).run(task=message.text)
            return message

    async def ask() -> None:
        runtime = SingleThreadedAgentRuntime()
        await Host.register(runtime, "host", lambda: Host("host"))
        runtime.start()
        await runtime.send_message(Ask("a"), AgentId("host", "default"))
        await runtime.stop_when_idle()

    asyncio.run(ask())
    assert read.openings(traced.trace) == [
        ("begin", "orchestrator"),
        ("spawn", "host"),
        ("spawn", "RoundRobinGroupChat"),
        ("spawn", "a"),
    ]
