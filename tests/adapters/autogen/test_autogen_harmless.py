"""The host never notices: equal items, results and errors, however a team is consumed."""

import asyncio
import contextvars
import gc
import json
import threading
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import TextMessage
from autogen_core import (
    AgentId,
    BaseAgent,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    message_handler,
)

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture
from tests.adapters.autogen.random_teams import KINDS, Builder
from tests.processes import run

SEEDS = range(6)


def _plain(item: Any) -> Any:
    """What a consumer sees of an item, but for ids and times that AutoGen draws anew."""
    if isinstance(item, TaskResult):
        return [_plain(message) for message in item.messages], item.stop_reason
    unlike = {"id", "created_at"}
    return type(item).__name__, {k: v for k, v in item.dump().items() if k not in unlike}


async def _items(team: Any, taken: int | None = None) -> list[Any]:
    """Read a team's stream, or so many items of it and then close it from elsewhere."""
    found: list[Any] = []
    stream = team.run_stream(task="go")
    try:
        while taken is None or len(found) < taken:
            found.append(_plain(await anext(stream)))
    except StopAsyncIteration:
        pass
    except Exception as error:  # noqa: BLE001 - compared
        found.append((type(error).__name__, str(error).splitlines()[0]))
    await asyncio.create_task(stream.aclose())
    return found


async def _in_tasks(team: Any) -> list[Any]:
    found: list[Any] = []
    stream = team.run_stream(task="go")
    while True:
        try:
            found.append(_plain(await asyncio.create_task(anext(stream))))
        except StopAsyncIteration:
            return found


async def _run(team: Any) -> list[Any]:
    return [_plain(await team.run(task="go"))]


@pytest.mark.parametrize("kind", KINDS)
def test_items_results_and_errors_are_the_hosts_own(kind, caplog) -> None:
    """Random teams say the same in the same order, traced and untraced."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    for seed in SEEDS:
        without = asyncio.run(_items(Builder(seed, kind).team))
        with capture(), orchtrace.instrument("autogen"):
            traced = asyncio.run(_items(Builder(seed, kind).team))
        assert traced == without


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_to_consume_leaves_the_same_tree(traced, read, kind) -> None:
    """Awaited, streamed, or streamed with a task for each step: one tree."""
    for seed in SEEDS:
        first = len(traced.traces)
        results = [asyncio.run(way(Builder(seed, kind).team)) for way in (_run, _items, _in_tasks)]
        trees = [read.outline(trace) for trace in traced.traces[first:]]
        assert results[0][-1] == results[1][-1] == results[2][-1]
        assert trees[1:] == [trees[0]] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_early_ends_everything_wherever_it_is_done(kind, caplog) -> None:
    """A stream closed from another task after any number of items ends its run, in peace.

    Of flat teams: AutoGen itself may hang where a team with teams inside is left. What its
    runtime, stopped in the middle, complains of to asyncio is its own.
    """
    with capture() as captured, orchtrace.instrument("autogen"):
        whole = asyncio.run(_items(Builder(3, kind, depth=2).team))
        for taken in range(1, len(whole)):
            assert asyncio.run(_items(Builder(3, kind, depth=2).team, taken)) == whole[:taken]
            assert captured.traces[-1].stop["stop_reason"] == "consumer_closed"
    assert len(captured.traces) == len(whole)
    assert captured.open == {}
    assert captured.ended_twice == []
    ours = ("opentelemetry", "orchtrace")
    assert [record for record in caplog.records if record.name.startswith(ours)] == []


GROWTH = """
import asyncio, gc, json, logging
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, Swarm
from autogen_core import CancellationToken
from opentelemetry.sdk.trace import TracerProvider
import orchtrace_otel as orchtrace

logging.disable(logging.CRITICAL)

class Agent(BaseChatAgent):
    def __init__(self, name, act=None):
        super().__init__(name, name)
        self.act = act
    @property
    def produced_message_types(self):
        return (TextMessage, HandoffMessage)
    async def on_messages(self, messages, token):
        said = self.act() if self.act else "words"
        if asyncio.iscoroutine(said):
            waiting = asyncio.ensure_future(said)
            token.link_future(waiting)
            said = await waiting
        if isinstance(said, str):
            said = TextMessage(content=said, source=self.name)
        return Response(chat_message=said)
    async def on_reset(self, token):
        pass

def fail():
    raise LookupError

async def normal():
    await RoundRobinGroupChat([Agent("a"), Agent("b")], max_turns=4).run(task="go")

async def flow():
    agents = [Agent(name) for name in "abcd"]
    a, b, c, d = agents
    graph = DiGraphBuilder()
    for agent in agents:
        graph.add_node(agent)
    graph.add_edge(a, b).add_edge(a, c).add_edge(b, d).add_edge(c, d)
    await GraphFlow(agents, graph=graph.build()).run(task="go")

async def swarm():
    hand = lambda: HandoffMessage(content="", source="a", target="b")
    await Swarm([Agent("a", hand), Agent("b")], max_turns=2).run(task="go")

async def leave():
    stream = RoundRobinGroupChat([Agent("a"), Agent("b")], max_turns=4).run_stream(task="go")
    await anext(stream)
    await anext(stream)
    await stream.aclose()

async def error():
    try:
        await RoundRobinGroupChat([Agent("a", fail)], max_turns=1).run(task="go")
    except RuntimeError:
        pass

async def cancel():
    token, started = CancellationToken(), asyncio.Event()
    async def wait():
        started.set()
        await asyncio.Event().wait()
    team = RoundRobinGroupChat([Agent("a", wait)], max_turns=1)
    running = asyncio.ensure_future(team.run(task="go", cancellation_token=token))
    await started.wait()
    token.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass

async def many(way, times):
    for _ in range(times):
        await way()

def gained(way):
    asyncio.run(many(way, 20))
    gc.collect()
    before = len(gc.get_objects())
    asyncio.run(many(way, 200))
    gc.collect()
    return len(gc.get_objects()) - before

WAYS = (normal, flow, swarm, leave, error, cancel)
without = {way.__name__: gained(way) for way in WAYS}
orchtrace.configure(tracer_provider=TracerProvider(), exporters=[])
with orchtrace.instrument("autogen"):
    traced = {way.__name__: gained(way) for way in WAYS}
print(json.dumps([without, traced]))
"""


def test_no_way_out_leaves_objects_behind() -> None:
    """After 200 runs of each way out as many objects live as after none."""
    without, traced = json.loads(run(GROWTH).splitlines()[-1])
    gained = {way: traced[way] - without[way] for way in traced}
    # A few caches of the interpreter and of AutoGen fill up at their own time.
    assert {way: more for way, more in gained.items() if more > 20} == {}


def _fail(_: int) -> str:
    raise LookupError


async def _close(plain) -> None:
    stream = plain("a").run_stream(task="go")
    await anext(stream)
    await stream.aclose()


async def _throw(plain) -> None:
    stream = plain("a").run_stream(task="go")
    await anext(stream)
    with pytest.raises(LookupError):
        await stream.athrow(LookupError())


async def _keep_its_error(plain) -> None:
    await asyncio.gather(plain("a", _fail).run(task="go"), return_exceptions=True)


async def _keep_a_core_agents_error(_plain) -> None:
    runtime = SingleThreadedAgentRuntime()
    await Clerk.register(runtime, "clerk", lambda: Clerk("a clerk"))
    runtime.start()
    asked = runtime.send_message(TextMessage(content="", source="a"), AgentId("clerk", "1"))
    await asyncio.gather(asked, return_exceptions=True)
    await runtime.stop_when_idle()


@pytest.mark.parametrize("way", [_close, _throw, _keep_its_error, _keep_a_core_agents_error])
def test_no_way_out_leaves_anything_for_the_collector(traced, plain, way) -> None:
    """What we knew of a run is free when it is over, also where a task keeps its error."""

    async def some() -> None:
        for _ in range(5):
            await way(plain)

    asyncio.run(some())
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        asyncio.run(some())
        gc.collect()
        ours = {type(one).__name__ for one in gc.garbage if "orchtrace" in type(one).__module__}
        assert ours == set()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


class Clerk(RoutedAgent):
    """An agent of the core."""

    @message_handler
    async def answer(self, message: TextMessage, ctx: MessageContext) -> str:
        if not message.content:
            raise LookupError
        return message.content


def test_an_agent_may_be_asked_without_a_runtime_and_without_a_context(traced) -> None:
    """A test of the host's hands a message to an agent itself, with whatever it has."""

    async def ask():
        runtime = SingleThreadedAgentRuntime()
        await Clerk.register(runtime, "clerk", lambda: Clerk("a clerk"))
        clerk = await runtime.try_get_underlying_agent_instance(AgentId("clerk", "1"), Clerk)
        return await clerk.on_message(TextMessage(content="hi", source="test"), None)

    assert asyncio.run(ask()) == "hi"


def test_a_message_whose_class_has_no_hash_goes_where_it_went(traced) -> None:
    """Classes of messages are told apart by identity alone."""

    class Meta(type):
        __hash__ = None

    class Odd(metaclass=Meta):
        pass

    class Takes(BaseAgent):
        async def on_message_impl(self, message, ctx):
            return type(message).__name__

    async def ask():
        runtime = SingleThreadedAgentRuntime()
        await Takes.register(runtime, "takes", lambda: Takes("takes all"))
        runtime.start()
        answer = await runtime.send_message(Odd(), AgentId("takes", "1"))
        await runtime.publish_message(Odd(), TopicId("takes", "1"))
        await runtime.stop_when_idle()
        return answer

    assert asyncio.run(ask()) == "Odd"


def test_a_coroutine_that_is_thrown_away_elsewhere_is_closed_in_peace(traced, plain) -> None:
    """Whichever thread drops it, nothing is logged, and each context stays as it was."""

    class Waits:
        def __await__(self):
            yield

    async def act():
        await Waits()
        return "never"

    async def ask():
        # Stepped by hand: as a task it would be cancelled where it runs.
        work = plain("waits", lambda _: act()).run(task="go")
        work.send(None)
        thread = threading.Thread(target=work.close)
        thread.start()
        thread.join()

    contextvars.copy_context().run(lambda: asyncio.run(ask()))
    assert traced.trace.stop["stop_reason"] == "consumer_closed"
