"""What a node, its routers and the packets sent to it find in a replay is what a run would give."""

import operator
import time
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels import Topic
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.managed import RemainingSteps
from langgraph.types import RetryPolicy, Send
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import LangGraphAdapter
from orchtrace_otel import Trace
from orchtrace_otel.replay import Change, Part, Slot, find_reads
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    CONFIG,
    State,
    Update,
    in_a_row,
    joins,
    ran,
    says,
)


def without(trace: Trace, target: Any, slot: Slot) -> None:
    """Run a team again without a message."""
    replayer: Any = LangGraphAdapter().replayer(target, trace, lambda _: 1.0)
    replayer.value(Change(without=frozenset({slot})), 0)


def test_a_router_finds_what_its_own_node_wrote(traced: Captured) -> None:
    """Though its node does not read a message, in the very channel that it writes."""
    routed: list[list[str]] = []

    def goes_on(state: State) -> str:
        routed.append(state["findings"])
        return "writer"

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", says("blue"))
    graph.add_node("writer", joins)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "bob")
    graph.add_conditional_edges("bob", goes_on, ["writer"])
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    assert routed.pop() == ["red", "blue"]
    without(trace, target, Slot("ann", "bob", 1))
    assert routed == [["blue"]]


def test_a_message_stays_hidden_from_who_reads_it_again(traced: Captured) -> None:
    """In its later rounds the reader works anew on a state without it, whoever else wrote."""

    class Heard(TypedDict):
        findings: list[str]

    class Topics(TypedDict):
        topics: list[str]

    seen: list[list[str]] = []

    def bob(state: Heard) -> Update:
        seen.append(state["findings"])
        return {"notes": ["heard"]}

    def calls_up(_: Topics) -> Update:
        return {"topics": []}

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", bob, input_schema=Heard)
    graph.add_node("cid", calls_up, input_schema=Topics)
    graph.add_node("dan", calls_up, input_schema=Topics)
    for before, after in ((START, "ann"), ("ann", "bob"), (START, "cid"), ("cid", "dan")):
        graph.add_edge(before, after)
    graph.add_edge("dan", "bob")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    assert seen == [["red"], ["red"]]
    seen.clear()
    without(trace, target, Slot("ann", "bob", 1))
    assert seen == [[], []]


def test_a_packet_is_worked_on_by_one_who_does_not_read_a_message(traced: Captured) -> None:
    """A node that once reads the state, and then gets packets, works on these."""
    given: list[Any] = []

    def bob(state: Any) -> Update:
        given.append(state.get("topic"))
        return {"notes": [f"{state.get('topic')}"]}

    def goes_on(state: State) -> Any:
        return END if len(state["notes"]) > 1 else [Send("bob", {"topic": state["findings"]})]

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", bob)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "bob")
    graph.add_conditional_edges("bob", goes_on, ["bob", END])
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()), {"notes": []})
    assert given == [None, ["red"]]
    given.clear()
    without(trace, target, Slot("ann", "bob", 1))
    assert given == [None, []]


class Counted(TypedDict):
    """A state that tells how many steps are left."""

    left: Annotated[list[int], operator.add]
    limits: Annotated[list[int], operator.add]
    remaining_steps: RemainingSteps


def test_the_steps_before_a_replay_count_as_they_did(traced: Captured) -> None:
    """Who asks how many are left hears the same; graphs inside have the limit of the run."""

    def counts(state: Counted, config: RunnableConfig) -> Update:
        return {"left": [state["remaining_steps"]], "limits": [config["recursion_limit"]]}

    graph = in_a_row({"ann": counts, "bob": counts, "cid": counts}, Counted)
    graph = graph.with_config(recursion_limit=7)
    trace, target = ran(traced, graph, {"left": []})
    left: list[Any] = []

    def score(state: Any) -> float:
        left.append((state["left"], state["limits"]))
        return 1.0

    found = orchtrace.counterfactual(trace, target, [Part("agent", "bob")], score=score, replays=1)
    assert found.lost == {}
    assert sorted(left) == [([6, 4], [7, 7]), ([6, 5, 4], [7, 7, 7])]


def rounds(ann: Any) -> Any:
    """A plan, one who may find it, and one who looks again up to three times."""

    def goes_on(state: State) -> str:
        return END if "red" in state["findings"] or len(state["findings"]) > 2 else "bob"

    graph: Any = StateGraph(State)
    graph.add_node("plan", lambda _: {"topics": []})
    graph.add_node("ann", ann)
    graph.add_node("bob", says("blue"))
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "ann")
    graph.add_edge("ann", "bob")
    graph.add_conditional_edges("bob", goes_on, ["bob", END])
    return graph.compile(checkpointer=InMemorySaver())


def lost_with(limit: int) -> dict[str, int]:
    """What is lost without one whom another needs more steps, as a run without that one says."""
    try:
        rounds(lambda _: {}).invoke({"findings": []}, {**CONFIG, "recursion_limit": limit})
    except GraphRecursionError:
        return {"failed": 1}
    return {}


def test_a_replay_is_out_of_steps_where_a_run_would_be(traced: Captured) -> None:
    """What would go on past the limit is a failed replay; what a run was given more, it has."""
    trace, target = ran(traced, rounds(says("red")))
    lost = [lost_with(limit) for limit in (5, 6)]
    assert lost == [{"failed": 1}, {}]
    for limit, expected in ((1, lost[0]), (5, lost[0]), (6, lost[1])):
        found = orchtrace.counterfactual(
            trace,
            target.with_config(recursion_limit=limit),
            [Part("agent", "ann")],
            score=lambda _: 1.0,
            replays=1,
        )
        assert found.lost == expected


def test_a_channel_that_keeps_what_was_written_has_its_value(traced: Captured) -> None:
    """Of a `DeltaChannel` checkpoints hold what was written since, in this run and before it."""
    deltas = pytest.importorskip("langgraph.channels.delta", reason="LangGraph 1.2 has it first")

    def added(old: list[str] | None, new: list[list[str]]) -> list[str]:
        return [*(old or []), *(text for texts in new for text in texts)]

    class Kept(TypedDict):
        findings: Annotated[list[str], deltas.DeltaChannel(added)]

    def counts(state: Any) -> Update:
        return {"findings": [f"{len(state['findings'])}"]}

    graph = in_a_row({"ann": counts, "bob": counts, "cid": counts}, Kept)
    graph.invoke({"findings": ["first"]}, CONFIG)
    trace, target = ran(traced, graph, {"findings": ["second"]})
    found: list[list[str]] = []

    def score(state: Any) -> float:
        found.append(state["findings"])
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    bob, slot = Part("agent", "bob"), Slot("ann", "cid", 1)
    for change in (
        Change(),
        Change(anew=frozenset({bob})),
        Change(without=frozenset({bob})),
        Change(without=frozenset({slot})),
    ):
        replayer.value(change, 0)
    before = ["first", "1", "2", "3", "second", "5"]
    assert found == [
        [*before, "6", "7"],
        [*before, "6", "7"],
        [*before, "6"],
        [*before, "6", "6"],
    ]


def test_who_is_tried_again_has_read_a_message_once(traced: Captured) -> None:
    """The trace and the checkpoints count the same, in every round that follows."""
    tries: list[bool] = [True]

    def bob(_: State) -> Update:
        if tries and tries.pop():
            raise ConnectionError
        return {"notes": ["heard"]}

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    graph.add_node("bob", bob, retry_policy=policy)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "bob")
    graph.add_conditional_edges(
        "bob", lambda state: "ann" if len(state["notes"]) < 2 else END, ["ann", END]
    )
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    replayer: Any = LangGraphAdapter().replayer(target, trace, lambda _: 1.0)
    read = {*find_reads(trace)}
    assert read == replayer._slots
    assert read == {*(Slot("ann", "bob", n) for n in (1, 2)), Slot("bob", "ann", 1)}


class Notes(TypedDict, total=False):
    """What a node reads of the state; its router reads all of it."""

    notes: Annotated[list[str], operator.add]


def by_red(state: State) -> str:
    """Go on with the editor where somebody found what it needs."""
    return "editor" if "red" in state["findings"] else "end"


def routed(clerk: Any, reads: Any) -> Any:
    """Ann finds something, and the router of a clerk reads it, whatever the clerk reads."""
    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("clerk", clerk, input_schema=reads)
    graph.add_node("editor", lambda _: {"draft": "edited"})
    graph.add_node("end", lambda state: {"answer": state.get("draft", "as it is")})
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "clerk")
    graph.add_conditional_edges("clerk", by_red, ["editor", "end"])
    graph.add_edge("editor", "end")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_router_that_reads_more_than_its_node_decides_anew(traced: Captured) -> None:
    """Its node reads nothing of what changed, but where it goes follows from it."""
    graph = routed(lambda _: {"notes": ["seen"]}, Notes)
    trace, target = ran(traced, graph, {"findings": []})
    found = orchtrace.counterfactual(
        trace,
        target,
        [Part("agent", "ann")],
        score=lambda state: float(state["answer"] == "edited"),
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [1.0]


def test_the_router_of_who_is_out_does_not_read_what_is_out_too(traced: Captured) -> None:
    """Where an agent is out together with the message to it, its edges go on without both."""
    trace, target = ran(traced, routed(says("blue"), State), {"findings": []})
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    letter, part = Slot("ann", "clerk", 1), Part("agent", "clerk")
    replayer.value(Change(without=frozenset({part})), 0)
    replayer.value(Change(without=frozenset({part, letter})), 0)
    assert answers == ["edited", "as it is"]


class Late(InMemorySaver):
    """One that saves a checkpoint when the next step has run, as a database far away does."""

    def put(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(0.02)
        return super().put(*args, **kwargs)


@pytest.mark.parametrize("defers", [False, True], ids=["join", "deferred"])
def test_who_came_to_a_join_later_is_not_there_before(traced: Captured, defers: bool) -> None:
    """LangGraph saves a barrier as it is when it is saved, by when the next step may have come."""
    graph: Any = StateGraph(State)
    for name in ("ann", "bob"):
        graph.add_node(name, says(name))
        graph.add_edge(START, name)
    graph.add_node("cid", says("cid"))
    graph.add_node("writer", joins, defer=defers)
    graph.add_edge("bob", "cid")
    graph.add_edge(["ann", "cid"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=Late()))
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    replayer.value(Change(without=frozenset({Slot("bob", "cid", 1)})), 0)
    assert answers == ["ann bob cid"]


class Noted(TypedDict, total=False):
    """Notes in a topic that keeps them."""

    notes: Annotated[list[str], Topic(str, True)]
    findings: list[str]
    answer: str


def test_what_came_to_a_topic_later_is_not_there_before(traced: Captured) -> None:
    """A checkpoint of a topic is as it is when it is saved, by when the next step may have come."""
    graph: Any = StateGraph(Noted)
    graph.add_node("ann", lambda _: {"notes": "red"})
    graph.add_node("bob", lambda _: {"notes": ["blue", "green"]})
    graph.add_node("writer", lambda state: {"answer": " ".join(state["notes"])})
    for before, after in ((START, "ann"), ("ann", "bob"), ("bob", "writer")):
        graph.add_edge(before, after)
    trace, target = ran(traced, graph.compile(checkpointer=Late()))
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    replayer.value(Change(edits={Part("agent", "bob"): {"notes": "grey"}}), 0)
    assert answers == ["red grey"]
