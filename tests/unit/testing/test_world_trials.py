"""What trials count, on cases whose answer is plain."""

import pytest

from orchtrace_otel.testing.world import make_world
from orchtrace_otel.testing.world.trials import (
    by_agent,
    confusion,
    name_agent,
    rank_by_replay,
    shares,
)


def test_shares_are_of_one_whole() -> None:
    """By event and by agent, flow and decay divide all of it, and no more."""
    for kind in ("debate", "swarm", "hierarchical"):
        world = make_world(5, kind)
        for method in ("flow", "decay"):
            parts = shares(world.trace)[method]
            assert sum(parts.values()) == pytest.approx(1.0)
            assert sum(by_agent(world.trace, parts).values()) == pytest.approx(1.0)


def test_replay_finds_what_is_planted() -> None:
    """With enough replays effects that are apart are ranked as they are."""
    found = rank_by_replay(2, 1, 200, graded=True)
    assert found["at least 0.1 apart"] > 0.9


def test_chance_is_one_of_as_many_as_there_are() -> None:
    """Who says nothing is right as often as chance has it."""
    assert 0.2 < name_agent(4, 2, 4)["prior: chance"] < 0.45


def test_the_confusion_table_counts_every_run() -> None:
    """A row a kind, and mixed."""
    counts = confusion(range(5))
    assert len(counts) == 7
    assert all(found.total() == 5 for found in counts.values())
