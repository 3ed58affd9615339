"""The world keeps its promises: sound traces, and truths that hold."""

from statistics import fmean

import pytest

from orchtrace_otel import schema
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.players import Part, find_slots
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.graph import read_graph
from orchtrace_otel.testing.world import World, make_group, make_world

KINDS = (
    "centralized",
    "planner_executor_critic",
    "debate",
    "swarm",
    "hierarchical",
    "harness",
    "mixed",
)


@pytest.fixture(params=[(kind, seed) for kind in KINDS for seed in range(8)], ids=str)
def world(request: pytest.FixtureRequest) -> World:
    """Runs of every kind of team."""
    kind, seed = request.param
    return make_world(seed, kind)


def test_traces_are_sound_and_every_measure_can_be_taken(world: World) -> None:
    """The traces are as those of a host: no fault, no flag, nothing absent."""
    assert schema.check(world.trace.to_dict()) == []
    scored = score(world.trace)
    assert scored.flags == ()
    assert {"work", "span", "makespan", "waste", "protocol_overhead"} <= scored.metrics.keys()
    assert scored.rewards["outcome"] == world.score


def test_the_same_seed_is_the_same_world(world: World) -> None:
    """Every bit of a trace, and every truth, follows from the seed."""
    seed = int(world.trace.task_id.removeprefix("task-"))
    again = make_world(seed, world.topology)
    assert again.trace.to_json() == world.trace.to_json()
    assert [again.effect(slot) for slot in again.slots] == [world.effect(s) for s in world.slots]


def test_the_planted_critical_path_is_the_longest_chain(world: World) -> None:
    """Own work along the activations that the run waited for is the run's span."""
    graph = read_graph(world.trace)
    on_path = set(world.critical_path)
    total = sum(
        own
        for event, own in zip(world.trace.events, graph.own_work, strict=True)
        if event["activation"] in on_path
    )
    assert total / 1e9 == pytest.approx(score(world.trace).metrics["span"], abs=1e-9)


def test_letters_are_the_messages_of_the_trace(world: World) -> None:
    """Each letter's slot leads to its event."""
    assert find_slots(world.trace) == {letter.slot: letter.event for letter in world.letters}


def test_fillers_change_nothing_and_all_is_within_bounds(world: World) -> None:
    """Taking a filler out has no effect at all, taking anything else one of at most 1."""
    for letter in world.letters:
        effect = world.effect(letter.slot)
        assert abs(effect) <= 1
        if letter.kind == "filler":
            assert effect == pytest.approx(0.0, abs=1e-12)
    assert 0 <= world.score <= 1


def test_replays_average_to_the_expected_outcome() -> None:
    """Exhaustive replay is the truth: many replays come as near to it as chance lets them."""
    world = make_world(0, "debate")
    for player in (*world.slots[:3], world.agents[0]):
        values = [world.value([player], seed=seed) for seed in range(4000)]
        assert fmean(values) == pytest.approx(world.expected([player]), abs=0.02)
        rolls = [world.value([player], seed=seed, graded=False) for seed in range(4000)]
        assert set(rolls) <= {0.0, 1.0}
        assert fmean(rolls) == pytest.approx(world.expected([player]), abs=0.03)


def test_without_a_change_a_replay_is_the_record(world: World) -> None:
    """Nothing is downstream of nothing."""
    assert world.replay(Change(), seed=9) == world.score == world.expected()


def test_upstream_of_a_change_stays_as_it_was() -> None:
    """What the last to work wrote to the root changes the answer and no chance in it."""
    world = make_world(1, "harness")
    (slot,) = world.slots
    assert len({world.value([slot], seed=seed) for seed in range(20)}) == 1


def test_a_capacity_can_be_edited() -> None:
    """A better model makes its agent, and on average the answer, better."""
    world = make_world(2, "hierarchical")
    skilled = Part("capacity", world.agents[0].name)
    anew = fmean(world.replay(Change(anew=frozenset({skilled})), s) for s in range(400))
    better = fmean(world.replay(Change(edits={skilled: 0.5}), s) for s in range(400))
    assert better >= anew


def test_a_run_with_a_fault_failed_and_says_who_broke_it() -> None:
    """The broken agent is one that worked, and the first thing it did is named."""
    for kind in KINDS[:-1]:
        for seed in range(5):
            world = make_world(seed, kind, has_fault=True)
            assert world.failing_agent in {part.name for part in world.agents}
            events = {event.id: event for event in world.trace.events}
            assert events[world.failing_event].agent == world.failing_agent
            if world.failing_message is not None:
                assert world.failing_message.sender == world.failing_agent
                assert world.effect(world.failing_message) < 0


def test_a_group_is_one_team_in_other_runs() -> None:
    """Runs of a group share task and broken agent, and differ in all else."""
    group = make_group(3, "centralized", runs=6)
    assert len({world.trace.task_id for world in group}) == 1
    assert len({world.failing_agent for world in group}) == 1
    assert len({world.trace.to_json() for world in group}) == 6


def test_an_unknown_topology_is_refused() -> None:
    """The message says which there are."""
    with pytest.raises(ConfigError, match="must be one of centralized"):
        make_world(1, "star")
