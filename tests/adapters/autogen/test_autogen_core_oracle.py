"""Random agents of the core: who caused what equals what the agents noted themselves."""

import asyncio
import logging
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    BaseAgent,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from opentelemetry.instrumentation.utils import suppress_instrumentation

import orchtrace_otel as orchtrace
from orchtrace_otel import Trace

NAMES = ("one", "two", "three", "four")
READERS = {"here": ("one", "two"), "there": ("three", "four", "one")}
NOBODY = "the host"


@dataclass
class Ask:
    """Work that follows from its seed alone, and who asked for it."""

    seed: int
    depth: int
    by: str


class Office:
    """Agents that note, each time that they work, by whom they were asked."""

    def __init__(self) -> None:
        self.asked_by: dict[str, str] = {}
        self.log: list[str] = []

    async def work(self, agent: Any, ask: Ask) -> str:
        me = f"{agent.id.type} {ask.seed}"
        self.asked_by[me] = ask.by
        self.log.append(me)
        orchtrace.decide(me, chosen="work")
        dice = random.Random(me)  # noqa: S311 - a program, not a secret
        for _ in range(dice.choice((0, 1, 1, 2)) if ask.depth else 0):
            asks = [Ask(dice.randrange(10**9), ask.depth - 1, me) for _ in range(2)]
            await dice.choice(WAYS)(agent, dice, asks)
        if dice.random() < 0.1:
            raise LookupError(me)
        return me


async def _send(agent: Any, dice: random.Random, asks: list[Ask]) -> None:
    await agent.send_message(asks[0], AgentId(dice.choice(NAMES), "a"))


async def _send_and_catch(agent: Any, dice: random.Random, asks: list[Ask]) -> None:
    sent = [agent.send_message(ask, AgentId(dice.choice(NAMES), "b")) for ask in asks]
    await asyncio.gather(*sent, return_exceptions=True)


async def _publish(agent: Any, dice: random.Random, asks: list[Ask]) -> None:
    await agent.publish_message(asks[0], TopicId(dice.choice([*READERS]), "a"))


async def _publish_in_a_task(agent: Any, dice: random.Random, asks: list[Ask]) -> None:
    await asyncio.create_task(_publish(agent, dice, asks))


WAYS = (_send, _send_and_catch, _publish, _publish_in_a_task)


class Routed(RoutedAgent):
    """An agent whose handlers are looked up by message."""

    def __init__(self, office: Office) -> None:
        super().__init__("works")
        self.office = office

    @rpc
    async def asked(self, message: Ask, ctx: MessageContext) -> str:
        return await self.office.work(self, message)

    @event
    async def told(self, message: Ask, ctx: MessageContext) -> None:
        await self.office.work(self, message)


class Bare(BaseAgent):
    """An agent that handles all messages itself."""

    def __init__(self, office: Office) -> None:
        super().__init__("works")
        self.office = office

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> str:
        return await self.office.work(self, message)


async def _open(office: Office) -> SingleThreadedAgentRuntime:
    runtime = SingleThreadedAgentRuntime()
    for at, name in enumerate(NAMES):
        kind: Any = (Routed, Bare)[at % 2]
        await kind.register(runtime, name, lambda kind=kind: kind(office))
    for topic, readers in READERS.items():
        for name in readers:
            await runtime.add_subscription(TypeSubscription(topic, name))
    runtime.start()
    return runtime


async def _begin(runtime: SingleThreadedAgentRuntime, dice: random.Random, ask: Ask) -> str:
    name, topic = dice.choice(NAMES), dice.choice([*READERS])
    try:
        if dice.random() < 0.5:
            return str(await runtime.send_message(ask, AgentId(name, "a")))
        await runtime.publish_message(ask, TopicId(topic, "a"))
    except LookupError as error:
        return repr(error)
    return "published"


async def _run(seed: int, office: Office) -> list[str]:
    """Ask once, or thrice at once; return what came back."""
    dice = random.Random(seed)  # noqa: S311 - likewise
    runtime = await _open(office)
    asks = [Ask(dice.randrange(10**9), 3, NOBODY) for _ in range(dice.choice((1, 3)))]
    came = await asyncio.gather(*(_begin(runtime, dice, ask) for ask in asks))
    await runtime.stop_when_idle()
    return came


def _caused(trace: Trace) -> dict[str, set[str]]:
    """Return who the causes of each opening are of, by what the agents call their work."""
    whose = {e["activation"]: str(e["name"]) for e in trace.events if e.verb == "decide"}
    events = {e.id: e for e in trace.events}
    into: dict[str, set[str]] = defaultdict(set)
    for edge in trace.edges:
        if edge.type in {"spawn", "causal", "message"}:
            into[edge.dst].add(whose.get(events[edge.src]["activation"], NOBODY))
    return {name: into[f"{activation}.open"] for activation, name in whose.items()}


@pytest.mark.parametrize("seed", range(40))
def test_causes_of_random_agents_equal_their_own_record(traced, caplog, seed) -> None:
    """Whatever they send, publish and raise; and they do what they do while nobody looks."""
    caplog.set_level(logging.CRITICAL, "autogen_core")
    unseen, office = Office(), Office()
    with suppress_instrumentation():
        came = asyncio.run(_run(seed, unseen))
    assert traced.traces == []
    assert asyncio.run(_run(seed, office)) == came
    assert office.log == unseen.log
    found: dict[str, set[str]] = {}
    for trace in traced.traces:
        assert trace.flags == ()
        found |= _caused(trace)
    assert found == {name: {by} for name, by in office.asked_by.items()}
