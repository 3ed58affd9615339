"""One run told in every dialect is one run: agents, hand-offs, tools, turns, edges, stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, schema
from orchtrace_otel.dialects import PASSED_THROUGH, read
from orchtrace_otel.model import Trace
from orchtrace_otel.rewards import score
from tests.unit.dialects.stories import (
    TELLERS,
    TRACE,
    Span,
    chat,
    genai,
    openinference,
    openllmetry,
    request,
)

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "otlp"


def told(spans: list[Span]) -> Trace:
    """The one run in these spans, which the schema accepts."""
    (trace,) = otlp.traces(otlp.read_json(request(spans)))
    assert list(schema.check(trace.to_dict())) == []
    return trace


def outline(trace: Trace) -> list[tuple[Any, ...]]:
    """What happened, who did it and to whom, without ids and times."""
    facts = ("from", "to", "tool", "instance", "status", "tokens", "stop_reason")
    return [
        (event.verb, event.agent, *(event.get(fact) for fact in facts)) for event in trace.events
    ]


def edges(trace: Trace) -> set[tuple[str, str, str]]:
    """The edges, with the place of each event in its trace for its id."""
    place = {event.id: str(number) for number, event in enumerate(trace.events)}
    return {(place[edge.src], place[edge.dst], edge.type) for edge in trace.edges}


def test_a_run_becomes_events_edges_turns_and_a_stop() -> None:
    """Everything that the OpenInference spans of the bakery say, and nothing twice."""
    trace = told(openinference())
    assert trace.trace_id == f"{TRACE}-{1:016x}"
    ok = "ok"
    team, front, baker = "Agent workflow", "front desk", "baker"
    assert outline(trace) == [
        ("begin", "user", "user", team, None, f"{team}#1", ok, None, None),
        ("spawn", team, None, front, None, f"{front}#1", ok, None, None),
        ("delegate", front, None, baker, None, f"{front}#1", ok, 46, None),
        ("return", front, front, team, None, f"{front}#1", ok, None, None),
        ("begin", front, front, baker, None, f"{baker}#1", ok, None, None),
        ("tool_call", baker, None, None, "oven", f"{baker}#1", ok, 69, None),
        ("tool_result", baker, None, None, "oven", f"{baker}#1", ok, None, None),
        ("return", baker, baker, front, None, f"{baker}#1", ok, 92, None),
        ("stop", team, None, None, None, f"{team}#1", ok, None, "information_complete"),
    ]
    assert edges(trace) == {
        ("0", "1", "spawn"),
        ("1", "2", "causal"),
        ("1", "3", "causal"),
        ("2", "3", "causal"),
        ("2", "4", "causal"),
        ("3", "4", "return"),
        ("4", "5", "causal"),
        ("4", "7", "causal"),
        ("5", "6", "causal"),
        ("6", "7", "tool_dependency"),
        ("0", "8", "causal"),
        ("7", "8", "return"),
    }
    assert [(turn.agent, turn.model, turn.provider, turn.tokens) for turn in trace.turns] == [
        ("front desk", "loaf-1", "openai", 46),
        ("baker", "loaf-1", "openai", 69),
        ("baker", "loaf-1", "openai", 92),
    ]
    assert trace.costs["tokens"] == 207
    assert trace.flags == ()


@pytest.mark.parametrize("dialect", TELLERS)
def test_every_dialect_tells_the_same_run(dialect: str) -> None:
    """Names and places of attributes differ, what happened does not."""
    one, other = told(openinference()), told(TELLERS[dialect]())
    assert outline(other) == outline(one)
    assert edges(other) == edges(one)
    assert [turn.tokens for turn in other.turns] == [turn.tokens for turn in one.turns]
    assert {read(span.name, span.attributes).dialect for span in TELLERS[dialect]()[:2]} == {
        dialect if dialect != "genai_old" else "genai"
    }


def test_what_only_structure_suggests_is_marked() -> None:
    """An unnamed recipient and a tool beside its agent are guesses; named ones are not."""
    guessed = {event.verb for event in told(openllmetry()).events if event.get("causality")}
    assert guessed == {"delegate", "begin", "tool_call", "stop"}
    assert {turn.causality for turn in told(openllmetry()).turns} == {"inferred"}
    said = {event.verb for event in told(openinference()).events if event.get("causality")}
    assert said == {"stop"}
    assert {turn.causality for turn in told(openinference()).turns} == {None}
    (taken,) = [e for e in told(genai()).events if e.verb == "begin" and e.agent != "user"]
    assert taken["causality"] == "inferred", "nobody but the hand-off says whose turn it is"


def test_spans_that_say_nothing_are_counted() -> None:
    """HTTP and glue pass through, and the chain from a call to its agent holds."""
    assert told(openinference()).metrics[PASSED_THROUGH] == 5
    assert told(openllmetry()).metrics[PASSED_THROUGH] == 0


@pytest.mark.parametrize("dialect", TELLERS)
def test_no_content_of_others_gets_in(dialect: str) -> None:
    """Messages, arguments and results stay where they are."""
    spans = TELLERS[dialect]()
    spans[-1].raised = "ValueError"
    received = otlp.read_json(request(spans))
    assert "secret" not in repr(received)
    assert "secret" not in told(spans).to_json()


@pytest.mark.parametrize("dialect", TELLERS)
@given(data=st.data())
def test_the_order_of_arrival_changes_no_bit(dialect: str, data: st.DataObject) -> None:
    """Shuffled, sent twice, over several requests: the same document."""
    spans = TELLERS[dialect]()
    sent = data.draw(st.permutations(spans)) + data.draw(st.lists(st.sampled_from(spans)))
    cut = data.draw(st.integers(0, len(sent)))
    received = otlp.read_json(request(sent[cut:])) + otlp.read_json(request(sent[:cut]))
    (trace,) = otlp.traces(received)
    assert schema.dump(trace) == schema.dump(told(spans))


@pytest.mark.parametrize("dialect", TELLERS)
@given(data=st.data())
def test_whatever_part_of_a_run_arrives_is_a_sound_trace(dialect: str, data: st.DataObject) -> None:
    """Lost spans cost what they said, never the schema, and scoring again changes nothing."""
    part = data.draw(st.lists(st.sampled_from(TELLERS[dialect]()), min_size=1))
    for trace in otlp.traces(otlp.read_json(request(part))):
        assert list(schema.check(trace.to_dict())) == []
        assert schema.dump(score(trace)) == schema.dump(trace)
        known = {event.id for event in trace.events}
        assert {edge.src for edge in trace.edges} | {edge.dst for edge in trace.edges} <= known
        assert trace.events[-1].verb == "stop"


def test_a_trace_that_holds_ours_is_read_as_before() -> None:
    """Others' agents and tools beside ours make no events, and their calls count below ours."""
    root = {
        a.RUN_ID: f"{TRACE}-{99:016x}",
        a.OPENS: "begin",
        a.AGENT_NAME: "ours",
        a.OPERATION: a.INVOKE_WORKFLOW,
    }
    inside = [Span(99, None, "invoke_workflow ours", 0, 200, root), *genai()]
    inside[1].parent = 99
    trace = told(inside)
    assert [event.verb for event in trace.events] == ["begin", "stop"]
    assert trace.costs["tokens"] == 207
    assert PASSED_THROUGH not in trace.metrics


def test_a_request_around_a_run_is_no_part_of_it() -> None:
    """A server's span on top is passed over: the run begins with its workflow."""
    spans = [Span(90, None, "POST /order", -5, 120, {"http.route": "/order"}), *genai()]
    spans[1].parent = 90
    trace = told(spans)
    assert trace.trace_id == f"{TRACE}-{41:016x}"
    assert outline(trace) == outline(told(genai()))
    assert trace.metrics[PASSED_THROUGH] == 1


def test_several_agents_under_one_request_are_one_run() -> None:
    """What is around all of them stands for the orchestrator that nobody named."""
    invoke = {"gen_ai.operation.name": "invoke_agent"}
    spans = [
        Span(90, None, "POST /order", 0, 100, {"http.route": "/order"}),
        Span(91, 90, "invoke_agent first", 10, 20, invoke),
        Span(92, 90, "invoke_agent second", 30, 40, invoke),
        Span(93, 92, "chat", 31, 39, chat(1, 2)),
    ]
    trace = told(spans)
    assert trace.trace_id == f"{TRACE}-{90:016x}"
    assert [(event.verb, event.agent, event.get("to")) for event in trace.events] == [
        ("begin", "user", "unknown"),
        ("spawn", "unknown", "first"),
        ("return", "first", "unknown"),
        ("spawn", "unknown", "second"),
        ("return", "second", "unknown"),
        ("stop", "unknown", None),
    ]
    missing = told(spans[1:])
    assert missing.trace_id == trace.trace_id, "the run keeps its id while its root is missing"
    assert missing.flags == ("missing_causes", "no_root")


def test_an_agent_inside_a_tool_is_spawned_by_that_call() -> None:
    """An agent as a tool hangs below the call, and gives its result back to it."""
    invoke, tool = {"gen_ai.operation.name": "invoke_agent"}, "gen_ai.tool.name"
    spans = [
        Span(1, None, "invoke_agent lead", 0, 100, invoke),
        Span(2, 1, "execute_tool ask", 10, 50, {a.OPERATION: "execute_tool", tool: "ask"}),
        Span(3, 2, "invoke_agent expert", 20, 40, invoke),
        Span(4, 3, "chat m", 21, 30, chat(1, 1)),
    ]
    trace = told(spans)
    ids = {number: f"{number:016x}" for number in (1, 2, 3)}
    assert {(edge.src, edge.dst, edge.type) for edge in trace.edges} >= {
        (f"{ids[2]}.open", f"{ids[3]}.open", "spawn"),
        (f"{ids[3]}.close", f"{ids[2]}.close", "return"),
        (f"{ids[2]}.close", f"{ids[1]}.stop", "tool_dependency"),
    }
    assert trace.turns[0].agent == "expert"


def test_parallel_agents_do_not_cause_each_other() -> None:
    """Branches follow from what came before both, and both lead to what comes after."""
    invoke = {"gen_ai.operation.name": "invoke_agent"}
    spans = [
        Span(1, None, "invoke_workflow w", 0, 100, {a.OPERATION: "invoke_workflow"}),
        Span(2, 1, "invoke_agent plan", 1, 10, invoke),
        Span(3, 1, "invoke_agent left", 11, 30, invoke),
        Span(4, 1, "invoke_agent right", 12, 20, invoke),
        Span(5, 1, "invoke_agent join", 40, 50, invoke),
        Span(6, 1, "invoke_agent plan", 60, 70, invoke),
    ]
    trace = told(spans)
    named = {f"{n:016x}": name for n, name in enumerate("_wplrjP")}
    found = {
        named[edge.src[:16]] + named[edge.dst[:16]] for edge in trace.edges if edge.type == "return"
    }
    assert found == {"pl", "pr", "lj", "rj", "jP", "Pw"}
    assert [e.verb for e in trace.events if e.get("instance") == "plan#1"] == [
        "spawn",
        "return",
        "delegate",
        "return",
    ]


def test_two_instrumentations_of_one_agent_are_one_agent() -> None:
    """One inside its own name's span is the same; so is a tool told by client and server."""
    tool = {a.OPERATION: "execute_tool", "gen_ai.tool.name": "search"}
    spans = [
        Span(1, None, "invoke_agent team", 0, 100, {a.OPERATION: "invoke_agent"}),
        Span(2, 1, "team.workflow", 1, 99, {"traceloop.span.kind": "workflow"}),
        Span(3, 2, "execute_tool search", 10, 50, tool),
        Span(4, 3, "tools/call search", 11, 49, tool),
        Span(5, 2, "chat m", 60, 70, chat(3, 4)),
        Span(6, 5, "ChatOpenAI", 61, 69, {"openinference.span.kind": "LLM"}),
    ]
    trace = told(spans)
    verbs = [event.verb for event in trace.events]
    assert verbs == ["begin", "tool_call", "tool_result", "stop"]
    assert len(trace.turns) == 1
    assert trace.costs["tokens"] == 7


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        ("langgraph.errors.GraphInterrupt", "paused", "paused"),
        ("langgraph.errors.ParentCommand", "ok", "information_complete"),
        ("asyncio.exceptions.CancelledError", "cancelled", "cancelled"),
        ("builtins.GeneratorExit", "ok", "information_complete"),
        ("ValueError", "error", "error"),
    ],
)
def test_control_flow_that_others_report_as_failure_is_none(
    raised: str, status: str, reason: str
) -> None:
    """A pause, a hand-off and a consumer that left are no errors, whatever the span's status."""
    spans = openinference()
    for span in (spans[0], spans[7]):
        span.raised, span.failed = raised, True
    trace = told(spans)
    closing = next(event for event in trace.events if event.id == f"{8:016x}.close")
    assert (closing["status"], trace.stop["stop_reason"]) == (status, reason)
    assert closing.get("error_type") == ("ValueError" if status == "error" else None)


def test_a_call_asked_for_by_id_comes_from_that_turn() -> None:
    """Two turns before two tools: ids say which led to which, where order would mislead."""
    asks = "llm.output_messages.0.message.tool_calls.0.tool_call.id"
    kind = "openinference.span.kind"
    spans = [
        Span(1, None, "lead", 0, 100, {kind: "AGENT"}),
        Span(2, 1, "LLM", 1, 10, {kind: "LLM", asks: "c1"}),
        Span(3, 1, "LLM", 11, 20, {kind: "LLM", asks: "c2"}),
        Span(4, 1, "one", 21, 30, {kind: "TOOL", "tool_call.id": "c1"}),
        Span(5, 1, "two", 31, 40, {kind: "TOOL", "tool_call.id": "c2"}),
    ]
    called = [event for event in told(spans).events if event.verb == "tool_call"]
    assert [(event["tool"], event["turns"], event["tool_call_id"]) for event in called] == [
        ("one", [f"{2:016x}"], "c1"),
        ("two", [f"{3:016x}"], "c2"),
    ]


def test_an_agent_that_was_made_is_spawned_where_it_was_made() -> None:
    """`create_agent` is the spawn; the first call of that name begins from it."""
    spans = [
        Span(1, None, "w", 0, 100, {a.OPERATION: "invoke_workflow"}),
        Span(2, 1, "create_agent expert", 1, 2, {a.OPERATION: "create_agent"}),
        Span(3, 1, "invoke_agent expert", 3, 9, {a.OPERATION: "invoke_agent"}),
    ]
    trace = told(spans)
    assert [(e.verb, e.get("to"), e.get("causality")) for e in trace.events[1:3]] == [
        ("spawn", "expert", None),
        ("begin", "expert", "inferred"),
    ]
    assert otlp.traces(otlp.read_json(request(spans[1:2]))) == [], "a definition is no run"


def test_plans_and_guards_are_points() -> None:
    """A plan is a decision that took time; a guard's check is a safety event."""
    kind = "openinference.span.kind"
    spans = [
        Span(1, None, "lead", 0, 100, {a.OPERATION: "invoke_agent"}),
        Span(2, 1, "plan lead", 10, 20, {a.OPERATION: "plan"}),
        Span(3, 1, "no names", 30, 31, {kind: "GUARDRAIL"}),
    ]
    made = [(e.verb, e.agent, e.get("name"), e["duration_s"]) for e in told(spans).events[1:-1]]
    assert made == [("decide", "lead", None, 0.01), ("safety_event", "lead", "no names", 0.001)]


def test_nodes_of_a_langgraph_are_agents() -> None:
    """Both instrumentations of LangChain tell nodes from glue by LangGraph's own metadata."""
    node = {"openinference.span.kind": "CHAIN", "metadata": '{"langgraph_node": "writer"}'}
    other = {
        "traceloop.span.kind": "task",
        "traceloop.entity.name": "writer",
        "traceloop.association.properties.langgraph_node": "writer",
    }
    assert read("writer", node).kind == "agent"
    assert read("execute_task writer", other).kind == "agent"
    assert read("RunnableLambda", node).kind == "step"
    assert read("x", {**node, "metadata": "{langgraph_node"}).kind == "step"
    assert read("x", {**node, "metadata": '["langgraph_node"]'}).kind == "step"
    start = {**node, "metadata": '{"langgraph_node": "__start__"}'}
    assert read("__start__", start).kind == "step"  # as LangGraph.js has it


def test_calls_of_models_alone_are_no_run() -> None:
    """An application that asks a model is no team; with a chain around the call it is a run."""
    asked = [
        Span(1, None, "POST", 0, 9, {"http.route": "/"}),
        Span(2, 1, "chat m", 1, 8, chat(3, 4)),
    ]
    assert otlp.traces(otlp.read_json(request(asked))) == []
    chained = [Span(1, None, "answer", 0, 9, {"openinference.span.kind": "CHAIN"}), asked[1]]
    assert otlp.traces(otlp.read_json(request(chained[:1]))) == []
    trace = told(chained)
    assert [(event.verb, event.agent) for event in trace.events] == [
        ("begin", "user"),
        ("stop", "answer"),
    ]
    assert (trace.costs["tokens"], trace.turns[0].agent) == (7, "answer")


def test_a_call_that_has_tools_inside_keeps_its_tokens() -> None:
    """Some clients call tools inside the call of a model: it is the root, and still a turn."""
    spans = [
        Span(1, None, "chat m", 0, 10, chat(3, 4)),
        Span(2, 1, "execute_tool t", 2, 5, {a.OPERATION: "execute_tool", "gen_ai.tool.name": "t"}),
    ]
    trace = told(spans)
    assert [event.verb for event in trace.events] == ["begin", "tool_call", "tool_result", "stop"]
    assert (trace.costs["tokens"], len(trace.turns)) == (7, 1)


def test_calls_in_old_openllmetry_name_themselves_by_request_type() -> None:
    """Before the conventions had operations; an embedding is no turn."""
    found = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": "m",
        "gen_ai.usage.prompt_tokens": 3,
        "gen_ai.usage.completion_tokens": 4,
    }
    said = read("openai.chat", found)
    assert (said.dialect, said.kind) == ("openllmetry", "turn")
    assert said.attributes[a.INPUT_TOKENS] == 3
    assert read("openai.embeddings", {**found, "llm.request.type": "embedding"}) is None


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings do not lie beside this clone")
@pytest.mark.parametrize(
    "run", ["test_agent_with_handoff_spans", "test_music_composer_handoff_hierarchy"]
)
def test_recordings_of_one_run_in_two_dialects_agree(run: str) -> None:
    """Real spans of the OpenAI Agents SDK: the same agents, delegations, tools, turns, edges."""
    one, other = (
        otlp.traces(otlp.read_json((RECORDED / f"{dialect}__{run}.otlp.json").read_bytes()))
        for dialect in ("openinference", "openllmetry")
    )
    assert len(one) == len(other) == 1
    assert outline(one[0]) == outline(other[0])
    assert edges(one[0]) == edges(other[0])
    assert [(t.agent, t.model, t.tokens) for t in one[0].turns] == [
        (t.agent, t.model, t.tokens) for t in other[0].turns
    ]
    assert {e.verb for e in one[0].events if e.verb == "delegate"} == {"delegate"}
    for trace in (*one, *other):
        assert list(schema.check(json.loads(trace.to_json()))) == []
        assert trace.flags == ()
