"""Random flows, beside a record of causes that a second reading of the graph makes."""

import asyncio
import random

import pytest
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, Swarm


def _layers(rng: random.Random) -> list[list[str]]:
    sizes = [1, *(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))]
    names = iter("abcdefghijklm")
    return [[next(names) for _ in range(size)] for size in sizes]


def _edges(rng: random.Random, layers: list[list[str]]) -> dict[str, set[str]]:
    """Return the parents of each node: at least one of the layer above, and some earlier ones."""
    parents: dict[str, set[str]] = {layers[0][0]: set()}
    for above, layer in enumerate(layers[1:]):
        earlier = [name for names in layers[: above + 1] for name in names]
        for name in layer:
            parents[name] = {rng.choice(layers[above])}
            parents[name] |= {other for other in earlier if rng.random() < 0.3}
    return parents


@pytest.mark.parametrize("seed", range(40))
def test_turns_of_a_random_flow_follow_from_its_edges(traced, plain, read, seed) -> None:
    """Each turn's triggers are the node's parents, however long each one takes."""
    rng = random.Random(seed)  # noqa: S311 - a seed for a test
    parents = _edges(rng, _layers(rng))

    def waits(turns: int):
        async def act() -> str:
            for _ in range(turns):
                await asyncio.sleep(0)
            return "done"

        return lambda _: act()

    agents = {name: plain(name, waits(rng.randint(0, 20))) for name in parents}
    graph = DiGraphBuilder()
    for agent in agents.values():
        graph.add_node(agent)
    for name, above in parents.items():
        for parent in sorted(above):
            graph.add_edge(agents[parent], agents[name])
    asyncio.run(GraphFlow(list(agents.values()), graph=graph.build()).run(task="go"))
    expected = {name: tuple(sorted(above)) or ("user",) for name, above in parents.items()}
    assert dict(read.triggers(traced.trace)) == expected
    aggregates = [e for e in traced.trace.events if e.verb == "aggregate"]
    joins = {tuple(sorted(above)) for above in parents.values() if len(above) > 1}
    assert len(aggregates) >= len(joins)


@pytest.mark.parametrize("seed", range(5))
def test_informants_are_whom_the_agent_read(traced, plain, seed) -> None:
    """Message edges into a turn come from the speakers that the agent itself saw."""
    rng = random.Random(seed)  # noqa: S311 - a seed for a test
    agents = [plain(name) for name in "abcd"[: rng.randint(2, 4)]]
    team = RoundRobinGroupChat(agents, max_turns=rng.randint(3, 9))
    asyncio.run(team.run(task="go"))
    trace = traced.trace
    events = {event.id: event for event in trace.events}
    read: dict[str, list[list[str]]] = {agent.name: [] for agent in agents}
    for event in trace.events[1:]:
        if event.id.endswith(".open"):
            sources = [
                events[edge.src].agent
                for edge in trace.edges
                if edge.dst == event.id and edge.type == "message"
            ]
            read[event["to"]].append(sources)
    assert read == {agent.name: agent.read for agent in agents}


def _scheduled(team: RoundRobinGroupChat, rounds: list[list[str]]) -> None:
    """Make a team's manager ask the given speakers, one list after the other."""
    make_factory = team._create_group_chat_manager_factory

    def factory_of(*args, **kwargs):
        make = make_factory(*args, **kwargs)

        def factory():
            manager = make()
            left = iter(rounds)

            async def select_speaker(thread) -> list[str]:
                return next(left)

            manager.select_speaker = select_speaker
            return manager

        return factory

    team._create_group_chat_manager_factory = factory_of


@pytest.mark.parametrize("seed", range(10))
def test_turns_of_random_rounds_follow_from_the_whole_round_before(
    traced, plain, read, seed
) -> None:
    """A manager that asks several at once waits for all of them."""
    rng = random.Random(seed)  # noqa: S311 - a seed for a test
    names = "abcd"
    rounds = [sorted(rng.sample(names, rng.randint(1, 4))) for _ in range(rng.randint(2, 5))]

    def waits():
        async def act() -> str:
            for _ in range(rng.randint(0, 15)):
                await asyncio.sleep(0)
            return "done"

        return lambda _: act()

    team = RoundRobinGroupChat([plain(name, waits()) for name in names], max_turns=len(rounds))
    _scheduled(team, rounds)
    asyncio.run(team.run(task="go"))
    before = [("user",), *(tuple(spoke) for spoke in rounds)]
    expected = [
        (name, causes) for asked, causes in zip(rounds, before, strict=False) for name in asked
    ]
    assert sorted(read.triggers(traced.trace)) == sorted(expected)


@pytest.mark.parametrize("seed", range(10))
def test_turns_of_a_random_swarm_begin_from_the_hand_over(traced, plain, read, seed) -> None:
    """Whoever hands over is the cause; whoever keeps the floor is asked again."""
    rng = random.Random(seed)  # noqa: S311 - a seed for a test
    spoken: list[str] = []
    handed: list[str | None] = []

    def act(name: str):
        def say(_: int):
            target = rng.choice(["a", "b", "c", None])
            target = None if target == name else target
            spoken.append(name)
            handed.append(target)
            if target is None:
                return "mine"
            return HandoffMessage(content="yours", source=name, target=target)

        return say

    agents = [plain(name, act(name)) for name in "abc"]
    asyncio.run(Swarm(agents, max_turns=8).run(task="go"))
    trace = traced.trace
    turns = [e for e in trace.events[1:] if e.id.endswith(".open")]
    lived: set[str] = set()
    expected = []
    for n, name in enumerate(spoken):
        is_handed = n > 0 and handed[n - 1] is not None
        verb = "begin" if is_handed else "delegate" if name in lived else "spawn"
        lived.add(name)
        expected.append((verb, spoken[n - 1] if is_handed else "Swarm", name))
    assert [(e.verb, e.agent, e["to"]) for e in turns] == expected
    causes = [("user",), *((name,) for name in spoken)]
    assert read.triggers(trace) == list(zip(spoken, causes, strict=False))
