"""What is taken out or said otherwise reaches its readers, in its round, and nobody else."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_autogen._replay import TeamReplayer
from orchtrace_otel.replay import Change, Part, Slot
from tests.adapters.autogen.replay.teams import (
    LETTERS,
    Model,
    has_both,
    joins,
    ran,
    round_robin,
    selector,
    swarm,
)


@pytest.mark.parametrize("make", [round_robin, selector])
def test_messages_are_taken_out_of_what_others_read(traced, cast, make) -> None:
    """The useful ones are worth all, the filler nothing; who spoke before is not asked again."""
    build = make(cast)
    trace, result = ran(traced, build)
    cast.taken()
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, LETTERS[2:], score=has_both, replays=2)
    (filler,) = found.effects
    assert (filler.value, filler.r_msg) == (
        0.0,
        -0.5 * filler.delay_s / trace.costs["wall_clock_s"],
    )
    assert {name: n for name, n in cast.taken().items() if name != "selector"} == {"writer": 2}
    found = orchtrace.counterfactual(trace, target, score=has_both, replays=2)
    values = {effect.player: effect.value for effect in found.effects}
    assert values == dict(zip(LETTERS, [1.0, 1.0, 0.0], strict=True)) | {
        Slot("writer", "broadcast", 1): 1.0
    }
    assert found.lost == {}


def test_one_reader_alone_may_miss_a_message(traced, cast) -> None:
    """By a slot that names the reader, or by all that it reads from the sender."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    players = [
        Slot("ann", "writer", 1),
        Slot("ann", "bob", 1),
        Part("dependency", "writer<-bob"),
        Part("dependency", "cid<-bob"),
    ]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 0.0, 1.0, 0.0]


def test_messages_agents_and_capacity_are_edited(traced, cast) -> None:
    """By another text, for all or for one reader; by what an agent says; by the number of turns."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={
            LETTERS[0]: ["pink", "dark red"],
            Slot("ann", "cid", 1): ["pink"],
            Part("agent", "bob"): ["grey", lambda read: f"blue after {read[-1].source}"],
            Part("capacity", "max_turns"): [3],
        },
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0, 0.0, -1.0, 0.0, -1.0]


def test_later_rounds_are_found_again(traced, cast) -> None:
    """In rounds the second message of an agent is taken out, the first stays as it was."""

    def build() -> RoundRobinGroupChat:
        counts = cast.agent("counts", lambda read: str(len(read)))
        return RoundRobinGroupChat(
            [cast.agent("ann", "x"), counts], termination_condition=MaxMessageTermination(7)
        )

    trace, result = ran(traced, build)
    cast.taken()
    said: list[list[str]] = []

    def score(result: TaskResult) -> float:
        said.append([str(m.content) for m in result.messages])
        return float(said[-1][-1])

    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, [Slot("ann", "broadcast", 2)], score=score, replays=2, workers=1
    )
    # With a system message each reads the task, what the other said, and what it said itself.
    assert said == [["go", "x", "3", "x", "5", "x", "7"], ["go", "x", "3", "", "4", "x", "6"]]
    assert found.effects[0].value == 1.0
    assert cast.taken() == {"ann": 2, "counts": 4}


def test_who_speaks_after_a_changed_message_is_chosen_anew(traced, cast) -> None:
    """Whoever chooses does so by what was said, which is as it was where one reader misses it."""

    def chooses(thread: Sequence[Any]) -> str | None:
        names = {"go": "ann", "ask bob": "bob"}
        return names.get(str(thread[-1].content), "cid")

    def build() -> SelectorGroupChat:
        ann = cast.agent("ann", "ask bob")
        return SelectorGroupChat(
            [ann, cast.agent("bob", joins), cast.agent("cid", "pass")],
            model_client=Model(lambda _: "cid", lambda: None),
            selector_func=chooses,
            max_turns=2,
        )

    trace, result = ran(traced, build)
    said: list[list[str]] = []

    def score(result: TaskResult) -> float:
        said.append([f"{m.source}: {m.content}" for m in result.messages[1:]])
        return 1.0

    replayer = TeamReplayer(Recorded(team=build, messages=result), trace, score)
    letter, part = Slot("ann", "broadcast", 1), Part("agent", "ann")
    for change in (
        Change(without=frozenset({letter})),
        Change(without=frozenset({part})),
        Change(edits={letter: "ask cid"}),
        Change(without=frozenset({Slot("ann", "bob", 1)})),
        Change(without=frozenset({Part("dependency", "bob<-ann")})),
    ):
        asyncio.run(replayer._value(change))
    assert said == [
        ["ann: ", "cid: pass"],
        ["ann: ", "cid: pass"],
        ["ann: ask cid", "cid: pass"],
        ["ann: ask bob", "bob: go"],
        ["ann: ask bob", "bob: go"],
    ]


def test_who_speaks_before_the_one_reader_is_not_asked_again(traced, cast) -> None:
    """What one of them misses is upstream of nobody before it; who never read it is no reader."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    cast.taken()
    target = Recorded(team=build, messages=result)
    players = [Slot("ann", "writer", 1), Slot("bob", "ann", 1), Slot("ann", "writre", 1)]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 0.0, None]
    assert found.effects[2].lost == {"blocked": 2}
    assert cast.taken() == {"writer": 2}


def test_who_is_edited_in_a_swarm_hands_over_as_it_did(traced, cast) -> None:
    """What it says is another thing; it kept the word, and was asked again without an end."""
    build = swarm(cast)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    reads = [lambda read: f"blue after {read[-1].content}"]
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={Part("agent", "ann"): ["pink", "dark red"], Part("agent", "bob"): reads},
        score=lambda result: has_both(result) + float("after red" in result.messages[-1].content),
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0, 1.0]
