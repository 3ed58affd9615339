"""People step in: interrupts, breakpoints, resumed runs, updated states, forks."""

import _thread
import asyncio
import json
import operator
import os
import subprocess
import sys
import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Annotated

import pytest
from langchain_core.tools import tool
from langgraph import runtime
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel import content, schema
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.testing import capture

THREAD = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def asks(state):
    return {"log": [interrupt("a secret question")]}


def graph_of(*nodes, **options):
    """A compiled chain of nodes, given as functions or pairs of a name and one."""
    graph = StateGraph(State)
    before = START
    for node in nodes:
        name, work = node if isinstance(node, tuple) else (node.__name__, node)
        graph.add_node(name, work)
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=InMemorySaver(), **options)


def done(state):
    return {"log": ["done"]}


def steps_in(trace):
    """What people did or were asked: name, agent, whether interrupts are named."""
    return [
        (e["name"], e.agent, "interrupts" in e.keys)
        for e in trace.events
        if e.verb == "human_intervention"
    ]


def links(trace):
    return [(one["run"], one["event"]) for one in trace.events[0].keys.get("links", [])]


def run(graph, given, config, *, is_async, **options):
    if is_async:
        return asyncio.run(graph.ainvoke(given, config, **options))
    return graph.invoke(given, config, **options)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_who_writes_a_barrier_again_after_a_resume_comes_too_late(traced, read, is_async):
    """`early` counts for what it wrote before the pause: `late` alone completes the join."""

    def ask(state):
        return {"log": [interrupt("again?")]}

    def join(state):
        return {"log": ["join"]}

    graph = StateGraph(State)
    graph.add_node("early", done)
    graph.add_node("ask", ask)
    graph.add_node("late", done)
    graph.add_node("join", join)
    graph.add_edge(START, "early")
    graph.add_edge("early", "ask")
    graph.add_conditional_edges("ask", lambda state: ["early", "late"], ["early", "late"])
    graph.add_edge(["early", "late"], "join")
    compiled = graph.compile(checkpointer=InMemorySaver())
    run(compiled, {}, THREAD, is_async=is_async)
    run(compiled, Command(resume="yes"), THREAD, is_async=is_async)
    assert read.triggers(traced.traces[-1]) == {
        "ask#1": [{"LangGraph#1"}, {"early#1"}],
        "early#1": [{"ask#1"}],
        "late#1": [{"ask#1"}],
        "join#1": [{"late#1"}],
    }


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_interrupt_is_asked_and_answered_by_a_person(traced, read, is_async):
    """The question is an event of the node, the answer one of the next run, linked to the pause."""
    graph = graph_of(asks, done)
    run(graph, {}, THREAD, is_async=is_async)
    run(graph, Command(resume="a secret answer"), THREAD, is_async=is_async)
    paused, resumed = traced.traces
    assert read.outline(paused) == [
        "0 LangGraph#1 begin",
        "1 asks#1 spawn <- causal 0",
        "2 asks#1 human_intervention <- causal 1",
        "3 asks#1 return (paused) <- causal 2",
        "4 LangGraph#1 stop paused (paused) <- return 3",
    ]
    assert read.outline(resumed) == [
        "0 LangGraph#1 begin",
        "1 LangGraph#1 human_intervention <- causal 0",
        "2 asks#1 spawn <- causal 1",
        "3 asks#1 return",
        "4 done#1 spawn <- causal 3",
        "5 done#1 return",
        "6 LangGraph#1 stop information_complete <- return 5",
    ]
    question, answer = paused.events[2], resumed.events[1]
    assert (question["name"], question["to"]) == ("interrupt", "user")
    assert (answer["name"], answer["from"]) == ("resume", "user")
    assert question["interrupts"] == answer["interrupts"]
    assert len(question["interrupts"]) == 1
    assert links(resumed) == [(paused.trace_id, paused.stop.id)]
    assert answer["links"] == resumed.events[0]["links"]
    root = next(s for s in traced.spans if f"{s.context.span_id:016x}" in resumed.trace_id)
    assert [f"{link.context.span_id:016x}" for link in root.links] == [paused.stop.id]
    assert "secret" not in paused.to_json() + resumed.to_json()
    assert all("secret" not in span.to_json() for span in traced.spans)


def test_several_questions_are_answered_by_id(traced):
    """A map of answers names its interrupts; each node asked its own."""
    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, asks)
        graph.add_edge(START, name)
    compiled = graph.compile(checkpointer=InMemorySaver())
    found = compiled.invoke({}, THREAD)["__interrupt__"]
    compiled.invoke(Command(resume={one.id: "yes" for one in found}), THREAD)
    paused, resumed = traced.traces
    asked = [e["interrupts"] for e in paused.events if e.verb == "human_intervention"]
    assert sorted(asked) == sorted([one.id] for one in found)
    answer = next(e for e in resumed.events if e.verb == "human_intervention")
    assert sorted(answer["interrupts"]) == sorted(one.id for one in found)


def test_an_answer_is_to_what_still_waits_for_one(traced):
    """Of several questions one was answered before, by whom it was asked is done: the rest wait."""
    graph = StateGraph(State)
    graph.add_node("once", asks)
    graph.add_node("twice", lambda state: {"log": [interrupt("first"), interrupt("second")]})
    graph.add_edge(START, "once")
    graph.add_edge(START, "twice")
    compiled = graph.compile(checkpointer=InMemorySaver())
    asked = [one.id for one in compiled.invoke({}, THREAD)["__interrupt__"]]
    answer = Command(resume=dict.fromkeys(asked, "yes"))
    (left,) = compiled.invoke(answer, THREAD)["__interrupt__"]
    compiled.invoke(Command(resume="yes"), THREAD)
    answers = [
        sorted(event["interrupts"])
        for trace in traced.traces
        for event in trace.events
        if event.verb == "human_intervention" and event.get("from") == "user"
    ]
    assert answers == [sorted(asked), [left.id]]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_question_deep_inside_is_asked_once(traced, is_async):
    """In graphs in graphs, who asks is the innermost node, and the ones around it pause."""

    def inner(node):
        graph = StateGraph(State)
        graph.add_node(*node)
        graph.add_edge(START, node[0])
        return graph.compile()

    graph = graph_of(("outer", inner(("middle", inner(("asks", asks))))), done)
    run(graph, {}, THREAD, is_async=is_async)
    run(graph, Command(resume="yes"), THREAD, is_async=is_async)
    paused, resumed = traced.traces
    assert steps_in(paused) == [("interrupt", "asks", True)]
    assert {e.agent: e["status"] for e in paused.events if e.verb == "return"} == dict.fromkeys(
        ("asks", "middle", "outer"), "paused"
    )
    assert steps_in(resumed) == [("resume", "LangGraph", True)]
    assert resumed.stop["stop_reason"] == "information_complete"


def test_a_question_of_a_tool_is_no_error(traced):
    """A tool that asks pauses, and so does the node that calls it."""

    @tool
    def ask(question: str) -> str:
        """Ask somebody."""
        return interrupt(question)

    def calls(state):
        return {"log": [ask.invoke({"question": "?"})]}

    graph = graph_of(calls)
    graph.invoke({}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    paused, resumed = traced.traces
    assert steps_in(paused) == [("interrupt", "calls", True)]
    assert {e.verb: e["status"] for e in paused.events[1:]} == {
        "spawn": "ok",
        "tool_call": "ok",
        "tool_result": "paused",
        "human_intervention": "ok",
        "return": "paused",
        "stop": "paused",
    }
    assert resumed.stop["stop_reason"] == "information_complete"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_question_of_a_called_task_is_asked_once(traced, is_async):
    """In the functional API the task asks, and its caller pauses."""
    if is_async:

        @task
        async def ask():
            return interrupt("?")

        @entrypoint(checkpointer=InMemorySaver())
        async def flow(n):
            return await ask()
    else:

        @task
        def ask():
            return interrupt("?")

        @entrypoint(checkpointer=InMemorySaver())
        def flow(n):
            return ask().result()

    run(flow, 1, THREAD, is_async=is_async)
    assert run(flow, Command(resume="yes"), THREAD, is_async=is_async) == "yes"
    paused, resumed = traced.traces
    assert steps_in(paused) == [("interrupt", "ask", True)]
    assert links(resumed) == [(paused.trace_id, paused.stop.id)]


def test_a_called_task_that_need_not_run_again_takes_no_causes(traced, read):
    """What came back before its call enters what is called next, which is the first of its name."""

    @task
    def ask():
        return interrupt("?")

    @task
    def note(text):
        return text

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n):
        answer = ask()
        wait([answer])
        return note("before").result() + note(answer.result()).result()

    flow.invoke(1, THREAD)
    assert flow.invoke(Command(resume=" and after"), THREAD) == "before and after"
    assert read.outline(traced.traces[1])[3:] == [
        "3 ask#1 spawn <- spawn 2",
        "4 ask#1 return",
        "5 note#1 spawn <- return 4, spawn 2",
        "6 note#1 return",
        "7 flow#1 return <- return 6",
        "8 LangGraph#1 stop information_complete <- return 7",
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_breakpoint_waits_for_a_person(traced, read, when, is_async):
    """Where the host set a breakpoint the graph asks, and None is the answer."""
    graph = graph_of(("first", done), ("second", done), **{f"interrupt_{when}": ["first"]})
    run(graph, {}, THREAD, is_async=is_async)
    assert len(run(graph, None, THREAD, is_async=is_async)["log"]) == 2
    paused, resumed = traced.traces
    assert steps_in(paused) == [(f"interrupt_{when}", "LangGraph", False)]
    assert read.stop(paused) == ("paused", "paused", f"interrupt_{when}")
    assert steps_in(resumed) == [("resume", "LangGraph", False)]
    assert links(resumed) == [(paused.trace_id, paused.stop.id)]


def test_an_updated_state_is_a_persons_doing(traced):
    """`update_state`, once or more, before a run goes on: linked to the run that was left."""
    graph = graph_of(asks, done, interrupt_before=["asks"])
    graph.invoke({}, THREAD)
    graph.update_state(THREAD, {"log": ["mine"]}, as_node="asks")
    graph.invoke(None, THREAD)
    left, went_on = traced.traces
    assert steps_in(went_on) == [("update_state", "LangGraph", False)]
    assert links(went_on) == [(left.trace_id, left.stop.id)]
    for text in ("again", "and again"):
        updated = graph.update_state(THREAD, {"log": [text]}, as_node="asks")
    graph.invoke(None, updated)
    again = traced.traces[2]
    assert steps_in(again) == [("update_state", "LangGraph", False)]
    assert links(again) == [(went_on.trace_id, went_on.stop.id)]
    assert graph.invoke(None, THREAD)["log"] == ["mine", "done", "again", "and again", "done"]


def test_a_fork_is_a_persons_doing(traced):
    """A run from an earlier checkpoint is linked to the run that passed there."""
    graph = graph_of(("first", done), ("second", done))
    graph.invoke({}, THREAD)
    earlier = list(graph.get_state_history(THREAD))[1]
    graph.invoke(None, earlier.config)
    first, fork = traced.traces
    assert steps_in(fork) == [("fork", "LangGraph", False)]
    root = first.events[0]
    assert links(fork) == [(first.trace_id, root.id)]
    assert [e["to"] for e in fork.events if e.verb == "spawn"] == ["second"]


@pytest.mark.parametrize("way", ["one_by_one", "at_once"])
@pytest.mark.parametrize("is_addressed", [False, True], ids=["thread", "checkpoint"])
def test_all_that_go_on_from_one_checkpoint_are_linked_to_the_run_that_left_it(
    traced, way, is_addressed
):
    """Several answers to one question, as in a search over a tree: none goes on from another."""
    ready = threading.Barrier(3)

    def asks_then_waits(state):
        answer = interrupt("?")
        if way == "at_once":
            ready.wait(30)
        return {"log": [answer]}

    graph = graph_of(asks_then_waits, done)
    graph.invoke({}, THREAD)
    paused = traced.trace
    config = graph.get_state(THREAD).config if is_addressed or way == "one_by_one" else THREAD
    answers = [Command(resume=str(number)) for number in range(3)]
    if way == "at_once":
        graph.batch(answers, [config] * 3)
    else:
        for answer in answers:
            graph.invoke(answer, config)
    found = [links(resumed) for resumed in traced.traces[1:]]
    assert found == [[(paused.trace_id, paused.stop.id)]] * 3


def test_graphs_in_bare_threads_of_tasks_of_one_id_belong_to_their_own(traced):
    """Runs that go on from one checkpoint have tasks of equal ids, which run at once."""
    inner = graph_of(("inside", done)).copy({"checkpointer": False, "name": "inner"})
    ready = threading.Barrier(2)

    def calls(state, config):
        answer = interrupt("?")
        ready.wait(30)
        is_over = threading.Event()

        def call():
            inner.invoke({}, config)
            is_over.set()

        _thread.start_new_thread(call, ())
        is_over.wait(30)
        ready.wait(30)
        return {"log": [answer]}

    graph = graph_of(calls)
    graph.invoke({}, THREAD)
    graph.batch([Command(resume="a"), Command(resume="b")], graph.get_state(THREAD).config)
    assert len(traced.traces) == 3
    for resumed in traced.traces[1:]:
        spawned = [e["to"] for e in resumed.events if (e.agent, e.verb) == ("calls", "spawn")]
        assert spawned == ["inner"]


def test_a_run_that_failed_and_goes_on_is_linked_and_nobody_steps_in(traced):
    """The host tries the rest of a run again: a link, and no event of a person."""
    failures = iter([True, False])

    def fails(state):
        if next(failures):
            raise ValueError
        return {"log": ["fine"]}

    graph = graph_of(done, fails)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        graph.invoke({}, THREAD)
    graph.invoke(None, THREAD)
    failed, went_on = traced.traces
    assert steps_in(went_on) == []
    assert links(went_on) == [(failed.trace_id, failed.stop.id)]


def test_new_input_on_an_old_thread_is_linked_to_nothing(traced):
    """Another task of the same conversation is not the former one resumed."""
    graph = graph_of(asks)
    graph.invoke({}, THREAD)
    graph.invoke({"log": ["new"]}, THREAD)
    assert links(traced.traces[1]) == []
    assert [name for name, _, _ in steps_in(traced.traces[1])] == ["interrupt"]


def test_threads_of_one_name_in_two_savers_are_not_taken_for_each_other(traced):
    """A thread that another process left has no link to a run on a thread of the same name."""
    graph_of(asks).invoke({}, THREAD)
    graph = graph_of(asks, done)
    graph.update_state(THREAD, {"log": ["theirs"]}, as_node="asks")
    graph.update_state(THREAD, {"log": ["theirs"]}, as_node="asks")
    graph.invoke(None, THREAD)
    assert links(traced.traces[1]) == []
    assert steps_in(traced.traces[1]) == [("update_state", "LangGraph", False)]


def test_a_command_to_go_elsewhere_is_a_persons_doing(traced):
    """`Command(goto=...)` as input steers a thread that paused."""
    graph = graph_of(asks, done)
    graph.invoke({}, THREAD)
    graph.invoke(Command(goto="done"), THREAD)
    paused, steered = traced.traces
    assert ("goto", "LangGraph", False) in steps_in(steered)
    assert links(steered) == [(paused.trace_id, paused.stop.id)]


def test_in_a_team_a_resumed_graph_is_part_of_the_same_run(traced):
    """Asked and answered in one run: edges say what follows, and there is no link."""
    graph = graph_of(asks, done)

    @orchtrace.team
    def team():
        graph.invoke({}, THREAD)
        return graph.invoke(Command(resume="yes"), THREAD)["log"]

    assert team() == ["yes", "done"]
    assert steps_in(traced.trace) == [
        ("interrupt", "asks", True),
        ("resume", "LangGraph", True),
    ]
    assert not any("links" in e.keys for e in traced.trace.events)


def test_a_graph_in_another_teams_run_is_linked_too(traced):
    """What is resumed in another run of a team links the graph's own opening."""
    graph = graph_of(asks, done)

    @orchtrace.team
    def team(given):
        return graph.invoke(given, THREAD).get("log")

    team({})
    assert team(Command(resume="yes")) == ["yes", "done"]
    paused, resumed = traced.traces
    (opening,) = [e for e in resumed.events if e.get("to") == "LangGraph" and e.verb == "spawn"]
    closing = next(e for e in paused.events if e.verb == "return" and e.agent == "LangGraph")
    assert opening["links"] == [{"run": paused.trace_id, "event": closing.id}]


def test_what_was_asked_is_named_by_a_hash_and_a_resumed_run_keeps_it(traced, monkeypatch):
    """One input, one task id, under a key; the answer does not make it another task."""
    monkeypatch.setattr(content.hashing, "_key", b"key")
    graph = graph_of(asks, ("asks again", asks), done)
    other = {"configurable": {"thread_id": "2"}}
    graph.invoke({"log": ["task"]}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    graph.invoke({"log": ["task"]}, other)
    graph.invoke({"log": ["another"]}, {"configurable": {"thread_id": "3"}})
    opaque = StateGraph(State)
    opaque.add_node("done", done)
    opaque.add_edge(START, "done")
    opaque.compile().invoke({"log": [object()]})
    first, *resumed, again, another, opaque = traced.traces
    assert [one.task_id for one in (*resumed, again)] == [first.task_id] * 3
    assert another.task_id != first.task_id
    assert len(first.task_id) == 32
    assert opaque.task_id == opaque.trace_id


@pytest.mark.skipif(
    not hasattr(runtime, "RunControl"), reason="graphs can be drained since LangGraph 1.2"
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_drained_run_is_paused_from_outside(traced, read, is_async):
    """Who asks a run to drain pauses it before its next step."""
    from langgraph.errors import GraphDrained

    control = runtime.RunControl()

    def first(state):
        control.request_drain("deploy")
        return {"log": ["first"]}

    graph = graph_of(first, done)
    with pytest.raises(GraphDrained):
        run(graph, {}, THREAD, is_async=is_async, control=control)
    graph.invoke(None, THREAD)
    drained, went_on = traced.traces
    assert read.stop(drained) == ("external", "paused", "draining")
    assert links(went_on) == [(drained.trace_id, drained.stop.id)]


_PROCESS = """
import operator, sys
from typing import Annotated
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict
import orchtrace_otel as orchtrace

class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]

orchtrace.configure(exporters=["jsonl:traces/"])
orchtrace.instrument("langgraph")
graph = StateGraph(State)
graph.add_node("asks", lambda state: {"log": [interrupt("?")]})
graph.add_node("beside", lambda state: {"log": ["beside"]})
graph.add_node("done", lambda state: {"log": ["done"]})
graph.add_edge(START, "asks")
graph.add_edge(START, "beside")
graph.add_edge(["asks", "beside"], "done")
with SqliteSaver.from_conn_string("checkpoints.db") as saver:
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}
    given = Command(resume="yes") if sys.argv[1] == "resume" else {}
    print(sorted(compiled.invoke(given, config, durability=sys.argv[2])["log"]))
    kept = [set(c.metadata) for c in saver.list(config)]
    print(any("orchtrace" in keys for keys in kept))
orchtrace.shutdown()
"""


@pytest.mark.parametrize(
    ("kept", "durability"),
    [("untouched", "async"), ("linked", "sync"), ("linked", "async"), ("linked", "exit")],
)
def test_a_run_resumed_in_another_process_is_linked_where_checkpoints_may_say_so(
    tmp_path, kept, durability
):
    """Two processes, one SQLite file: with our key in checkpoints the second links the first."""
    pytest.importorskip("langgraph.checkpoint.sqlite")
    env = {**os.environ, "ORCHTRACE_LANGGRAPH_CHECKPOINTS": kept}
    told = []
    for what in ("begin", "resume"):
        ran = subprocess.run(
            [sys.executable, "-c", _PROCESS, what, durability],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        told.append(ran.stdout.splitlines())
    assert told[1][0] == "['beside', 'done', 'yes']"
    assert {lines[1] for lines in told} == {str(kept == "linked")}
    lines = schema.read_lines(Path(tmp_path) / "traces" / "traces.jsonl")
    paused, resumed = (line.trace for line in lines)
    assert steps_in(paused) == [("interrupt", "asks", True)]
    assert steps_in(resumed) == [("resume", "LangGraph", True)]
    wanted = [(paused.trace_id, paused.events[0].id)] if kept == "linked" else []
    assert links(resumed) == wanted
    assert json.loads(resumed.to_json())["events"][0].get("links", []) == [
        {"run": run, "event": event} for run, event in wanted
    ]


def test_a_wrong_word_for_checkpoints_is_refused(monkeypatch):
    """Set-up fails loudly, and nothing stays patched."""
    monkeypatch.setenv("ORCHTRACE_LANGGRAPH_CHECKPOINTS", "marked")
    with pytest.raises(ConfigError, match="ORCHTRACE_LANGGRAPH_CHECKPOINTS must be one of"):
        orchtrace.instrument("langgraph")
    monkeypatch.delenv("ORCHTRACE_LANGGRAPH_CHECKPOINTS")
    with capture() as captured, orchtrace.instrument("langgraph"):
        graph_of(done).invoke({}, THREAD)
    assert len(captured.traces) == 1


def test_checkpoints_are_equal_with_and_without_us():
    """Unless asked for, nothing of ours is in a checkpoint, its metadata or its writes."""

    def kept():
        graph = graph_of(asks, done)
        graph.invoke({}, THREAD)
        graph.invoke(Command(resume="yes"), THREAD)
        found = [
            (
                sorted(one.checkpoint["channel_values"]),
                {k: v for k, v in one.metadata.items() if k != "run_id"},
                [(channel, str(type(value))) for _, channel, value in one.pending_writes],
            )
            for one in graph.checkpointer.list(THREAD)
        ]
        return repr(found)

    without = kept()
    with capture() as captured, orchtrace.instrument("langgraph"):
        assert kept() == without
    assert len(captured.traces) == 2
