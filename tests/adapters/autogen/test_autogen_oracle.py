"""Random teams, beside a record of causes that those who took part kept themselves."""

import asyncio
import json
import os
import random
from collections import Counter

import pytest
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import SingleThreadedAgentRuntime

from tests.adapters.autogen.random_teams import Builder, seeds
from tests.adapters.autogen.read_causes import Read

TEAMS = int(os.environ.get("ORCHTRACE_RANDOM_TEAMS", "60"))
"""How many teams; `make test-causality` asks for more."""

TOGETHER = 5
"""How many run at once, on one loop."""


async def _run(teams: list[Builder], runtime: SingleThreadedAgentRuntime | None) -> list[object]:
    """Run teams at once; a few fail in AutoGen, such as one that is asked with nothing to read."""
    if runtime is not None:
        runtime.start()
    runs = (built.team.run(task="go") for built in teams)
    results = await asyncio.gather(*runs, return_exceptions=True)
    if runtime is not None:
        await runtime.stop_when_idle()
    return results


@pytest.mark.timeout(900)
def test_causes_of_random_teams_equal_their_own_record(traced, caplog, capsys) -> None:
    """Triggers, informants and tool calls of every turn are those that took part noted."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    caplog.set_level("CRITICAL", logger="autogen_core.events")
    kinds: Counter[str] = Counter()
    turns = failed = 0
    drawn = list(seeds(TEAMS))
    for first in range(0, TEAMS, TOGETHER):
        # Every other time all share one runtime, which the host made outside any run.
        runtime = SingleThreadedAgentRuntime() if first % (2 * TOGETHER) else None
        some = drawn[first : first + TOGETHER]
        teams = [Builder(seed, kind, runtime=runtime) for seed, kind in some]
        results = asyncio.run(_run(teams, runtime))
        failed += sum(isinstance(result, RuntimeError) for result in results)
        found = {trace.events[0]["to"]: trace for trace in traced.traces[first:]}
        assert len(found) == len(teams)
        for built in teams:
            trace = found[built.team.label]
            read = Read(json.loads(trace.to_json()))
            record = built.record
            spoke = frozenset(record.said.values())
            informants = {t: told & spoke for t, told in read.informants().items()}
            assert informants == {t: record.informants.get(t, frozenset()) for t in informants}
            assert read.triggers() == record.triggers, f"seed {built.seed}"
            assert read.tools() == record.tools, f"seed {built.seed}"
            assert trace.flags == ()
            kinds += built.kinds
            turns += len(record.triggers)
    with capsys.disabled():
        print(  # noqa: T201 - the count is asked for
            f"\n{TEAMS} random AutoGen teams ({failed} fail), {turns} turns agree:"
            f" {dict(sorted(kinds.items()))}"
        )


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
