"""What agents, roles and messages are worth comes out to the number, in every kind of team."""

from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_otel.replay import Part, Slot
from tests.adapters.autogen.replay.teams import (
    AGENTS,
    LETTERS,
    has_both,
    joins,
    ran,
    round_robin,
    selector,
    swarm,
)


@pytest.mark.parametrize("make", [round_robin, selector, swarm])
def test_two_of_three_share_what_needs_both(traced, cast, make) -> None:
    """Shapley gives them half each and the third nothing, exactly, in every kind of team."""
    build = make(cast)
    trace, result = ran(traced, build)
    assert has_both(result) == 1.0
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, AGENTS, method="shapley", score=has_both, replays=1
    )
    assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]
    assert found.lost == {}


def test_a_role_is_all_who_have_it(traced, cast) -> None:
    """Roles are those of the trace."""

    def build() -> RoundRobinGroupChat:
        team = [
            orchtrace.agent(cast.agent("ann", "red"), role="executor"),
            orchtrace.agent(cast.agent("bob", "blue"), role="executor"),
            orchtrace.agent(cast.agent("cid", "green"), role="verifier"),
        ]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, "role", score=has_both, replays=2)
    values = {effect.player.name: effect.value for effect in found.effects}
    assert values == {"executor": 1.0, "verifier": 0.0}


def test_players_that_no_turn_is_are_blocked(traced, cast) -> None:
    """The team itself, what nobody said, a name that is unknown: each says so."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    unknown = [
        Part("agent", "RoundRobinGroupChat"),
        Part("role", "critic"),
        Part("dependency", "ann<-bob"),
        Part("capacity", "max_turns"),
        Slot("ann", "broadcast", 2),
    ]
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, unknown, score=has_both, replays=2)
    for effect in found.effects[:3] + found.effects[4:]:
        assert effect.lost == {"blocked": 2}
    assert found.effects[3].lost == {"blocked": 1}  # there is a number of turns, to be edited


def test_a_replay_that_raises_costs_itself_alone(traced, cast) -> None:
    """Counted as failed, and the rest has its numbers."""

    def joins_red(messages: Sequence[Any]) -> str:
        text = joins(messages)
        if "red" not in text:
            msg = "no red"
            raise ValueError(msg)
        return text

    def build() -> RoundRobinGroupChat:
        team = [cast.agent("ann", "red"), cast.agent("bob", "blue")]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins_red)],
            termination_condition=MaxMessageTermination(4),
        )

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, LETTERS[:2], score=has_both, replays=2)
    assert [effect.lost for effect in found.effects] == [{"failed": 1}, {}]
    assert found.effects[1].value == 1.0
