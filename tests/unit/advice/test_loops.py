"""Loops, ping-pong, near-duplicates, stalls and deadlocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.advice.loops import (
    STALL,
    Action,
    Loops,
    Novelty,
    PingPong,
    WaitFor,
    is_near,
    simhash,
)


def see(loops: Loops, agents: str, version: int | None = 1) -> list[tuple[int, int, bool]]:
    seen = [loops.see(Action(agent, "return", version=version)) for agent in agents]
    return [(one.repeats, one.period, one.is_loop) for one in seen]


def test_the_same_action_three_times_is_a_loop() -> None:
    """On one version of what it touches."""
    assert see(Loops(), "AAA") == [(0, 0, False), (1, 0, False), (2, 1, True)]


def test_a_cycle_that_comes_twice_is_a_loop() -> None:
    """With its period; what breaks it ends it."""
    assert see(Loops(), "ABCABCD") == [
        (0, 0, False),
        (0, 0, False),
        (0, 0, False),
        (1, 0, False),
        (1, 0, False),
        (1, 3, True),
        (0, 0, False),
    ]


@pytest.mark.parametrize("cycle", ["ABAC", "AAB", "AABB", "ABACAD", "ABCDEFG"])
def test_an_action_may_come_more_than_once_in_a_cycle(cycle: str) -> None:
    """The period is that of the whole, all along from the second time on."""
    seen = see(Loops(), cycle * 4, version=None)
    assert {period for _, period, _ in seen[2 * len(cycle) + 1 :]} >= {len(cycle)}
    assert [period for _, period, _ in seen][2 * len(cycle) - 1] == len(cycle)


def test_the_same_action_on_news_is_no_repeat() -> None:
    """A writer that drafts anew each time goes on."""
    loops = Loops()
    seen = [loops.see(Action("writer", "return", version=n)) for n in range(9)]
    assert not any(one.repeats or one.is_loop for one in seen)


def test_where_nobody_says_what_changes_a_repeat_is_no_loop() -> None:
    """It is a number to learn from alone."""
    seen = see(Loops(), "AAAA", version=None)
    assert [repeats for repeats, _, _ in seen] == [0, 1, 2, 3]
    assert not any(is_loop for _, _, is_loop in seen)


def test_other_arguments_are_another_action() -> None:
    """A search for something else is no repeat."""
    loops = Loops()
    seen = [loops.see(Action("a", "tool_call", "search", n, 1)) for n in range(5)]
    assert not any(one.repeats for one in seen)


def test_tools_for_polling_are_left_out() -> None:
    """They are called until something happens."""
    loops = Loops({"poll"})
    for _ in range(9):
        loops.see(Action("a", "tool_call", "poll", None, 1))
    assert loops.latest == (0, 0, False, 0)
    assert not loops.is_stalled


def test_a_loop_is_not_told_again_of_a_tool_for_polling() -> None:
    """What the run did before it was told when it did so."""
    loops = Loops({"poll"})
    assert see(loops, "AAA")[-1] == (2, 1, True)
    assert not loops.see(Action("a", "tool_call", "poll", None, 1)).is_loop


def test_a_run_stalls_when_nothing_is_new() -> None:
    """After so many actions; progress of any kind begins anew."""
    loops = Loops()
    for number in range(STALL):
        assert not loops.is_stalled
        loops.see(Action(str(number), "return"))
    assert loops.is_stalled
    loops.see(Action("z", "return"), is_progress=True)
    assert not loops.is_stalled


def test_ping_pong_is_seen_whatever_changes() -> None:
    """Groups of two to four that come right again; one alone is a repeat and no ping-pong."""

    def last(agents: str) -> int:
        found = PingPong()
        return [found.see(agent) for agent in agents][-1]

    assert [last("ABAB"), last("ABCABC"), last("ABCDABCD")] == [1, 1, 1]
    assert [last("AAAA"), last("ABAC"), last("ABC")] == [0, 0, 0]


TEXT = "the bridge over the river is four hundred and twelve metres long and opened in june"


def test_near_duplicates_are_near_and_others_are_not() -> None:
    """Punctuation and case change nothing, another text does."""
    other = "nobody knows when the market moved to where it stands today beside the harbour wall"
    assert simhash(TEXT) == simhash(TEXT.upper() + "!")
    assert is_near(simhash(TEXT), simhash(TEXT))
    assert not is_near(simhash(TEXT), simhash(other))


def test_novelty_is_the_share_of_words_that_are_new() -> None:
    """A text that comes again has none, and is a duplicate."""
    novelty = Novelty()
    assert (novelty.see(TEXT), novelty.is_duplicate) == (1.0, False)
    assert (novelty.see(TEXT), novelty.is_duplicate) == (0.0, True)
    assert novelty.see("bridge lighthouse") == 0.5
    assert novelty.see("") == 0.0


def test_waits_that_close_a_circle_are_a_deadlock() -> None:
    """A wait that is over closes none; waiting twice must end twice."""
    waits = WaitFor()
    assert not waits.wait("a", "b")
    assert not waits.wait("a", "b")
    assert waits.wait("b", "a")
    waits.done("b", "a")
    waits.done("a", "b")
    assert waits.wait("b", "a")
    waits.done("b", "a")
    waits.done("a", "b")
    waits.done("a", "b")
    assert not waits.wait("b", "a")
    assert WaitFor().wait("a", "a")


def test_a_circle_is_over_when_any_of_its_waits_is() -> None:
    """Whether it is the one that closed it, or another."""
    for over in (("a", "b"), ("b", "c"), ("c", "a")):
        waits = WaitFor()
        for who, whom in (("a", "b"), ("b", "c"), ("c", "a")):
            waits.wait(who, whom)
        assert waits.is_circle
        waits.done(*over)
        assert not waits.is_circle


@given(st.lists(st.sampled_from("ABC"), max_size=60))
def test_counts_are_those_of_counting_all(agents: list[str]) -> None:
    """However long a run is, each action takes the same few steps, and counts the same."""
    seen = see(Loops(), "".join(agents))
    for at, agent in enumerate(agents):
        assert seen[at][0] == agents[:at].count(agent)


@given(st.text("AB", min_size=1, max_size=4), st.integers(3, 8))
def test_every_cycle_is_found(cycle: str, times: int) -> None:
    """Whatever it is made of."""
    assert see(Loops(), cycle * times)[-1][2]


@pytest.mark.parametrize("version", [None, 1])
def test_what_is_remembered_is_bounded(version: int | None) -> None:
    """Ten thousand different actions leave some thousands."""
    loops = Loops()
    for number in range(10_000):
        loops.see(Action(str(number), "return", version=version))
    assert len(loops._counts) == 4_096
    assert len(loops._latest) == 32
