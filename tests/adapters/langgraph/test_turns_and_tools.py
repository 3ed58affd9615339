"""LLM calls and tool calls: tokens, pairing, and what is current in a tool."""

import asyncio
import operator
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain_core.language_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from opentelemetry import trace as otel
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def answer(text="", *, tokens=None, calls=()):
    """A model's answer, with usage where `tokens` is given as (read, written)."""
    usage = tokens and {
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "total_tokens": sum(tokens),
    }
    return AIMessage(
        text,
        usage_metadata=usage,
        tool_calls=[{"name": name, "args": {"x": 1}, "id": id_} for id_, name in calls],
        response_metadata={"finish_reason": "stop", "model_name": "answering-model"},
    )


class Model(FakeMessagesListChatModel):
    """A scripted model with a name."""

    model_name: str = "asked-model"


def run(node, *, is_async=False):
    """Run a graph of one node."""
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    compiled = graph.compile()
    return asyncio.run(compiled.ainvoke({})) if is_async else compiled.invoke({})


def chain(*nodes):
    """A graph of nodes one after the other, which are named by their place."""
    graph = StateGraph(State)
    for place, node in enumerate(nodes):
        graph.add_node(str(place), node)
        graph.add_edge(str(place - 1) if place else START, str(place))
    return graph.compile()


@tool
def double(x: int) -> int:
    """Double a number."""
    otel.get_tracer("host").start_span("in the tool").end()
    return 2 * x


@tool
async def adouble(x: int) -> int:
    """Double a number."""
    await asyncio.sleep(0)
    otel.get_tracer("host").start_span("in the tool").end()
    return 2 * x


class Usage:
    """Tokens as a provider's client tells them."""

    def __init__(self, read):
        self.prompt_tokens, self.completion_tokens = read, 3


class Reports(FakeMessagesListChatModel):
    """Hands on what its provider said of the whole answer, as it came."""

    output: Any = None

    def _generate(self, *args, **kwargs):
        return super()._generate(*args, **kwargs).model_copy(update={"llm_output": self.output})


@pytest.mark.parametrize(
    ("output", "known"),
    [
        ({"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}}, (7, 3)),
        ({"token_usage": Usage(7)}, (7, 3)),
        ({"token_usage": Usage(None)}, (None, None)),
        ({"token_usage": [7, 3]}, (None, None)),
    ],
    ids=["dict", "object", "half", "list"],
)
def test_usage_is_read_in_whatever_form_it_comes(traced, output, known):
    """One that cannot be read stays unknown; the turn ends."""
    model = Reports(responses=[answer("hi")], output=output)
    assert run(lambda state: {"log": [model.invoke("hello").content]}) == {"log": ["hi"]}
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.output_tokens, turn.status) == (*known, "ok")


@pytest.mark.parametrize("usage", [{"input_tokens": 7}, {"input_tokens": None}, 7])
def test_usage_of_a_message_that_is_not_whole_stays_unknown(traced, usage):
    """A model may put anything there after its message was checked."""
    said = answer("hi")
    said.usage_metadata = usage
    said.tool_calls = ["none"]
    model = Model(responses=[said])
    run(lambda state: {"log": [model.invoke("hello").content]})
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.status) == (None, "ok")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"stop_reason": "max_tokens"}, "max_tokens"),
        ({"done_reason": "length"}, "length"),
        ({"stopReason": "end_turn"}, "end_turn"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ({"status": "completed", "incomplete_details": None}, None),
    ],
    ids=["Anthropic", "Ollama", "Bedrock", "Responses", "whole"],
)
def test_why_an_answer_ended_is_told_in_each_providers_words(traced, said, reason):
    """Wherever LangChain's model for it puts them."""
    model = Model(responses=[AIMessage("hi", response_metadata=said)])
    run(lambda state: {"log": [model.invoke("hello").content]})
    (turn,) = traced.trace.turns
    assert turn.finish_reason == reason


def test_a_turn_carries_model_usage_and_reason(traced):
    """What the provider says is recorded; the turn's tokens count once."""
    model = Model(responses=[answer("hi", tokens=(7, 3))])
    run(lambda state: {"log": [model.invoke("hello").content]})
    (turn,) = traced.trace.turns
    assert (turn.agent, turn.model, turn.input_tokens, turn.output_tokens) == (
        "node",
        "answering-model",
        7,
        3,
    )
    assert (turn.finish_reason, turn.status, turn.provider) == ("stop", "ok", "model")
    assert traced.trace.costs["tokens"] == 10
    span = next(span for span in traced.spans if span.name == "chat asked-model")
    assert "hello" not in span.to_json()


def test_unknown_usage_stays_unknown(traced):
    """A model that reports no usage gives no zero, and the trace says how many did not."""
    model = Model(responses=[answer("hi")])
    run(lambda state: {"log": [model.invoke("hello").content]})
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.output_tokens) == (None, None)
    assert traced.trace.metrics["turns_without_usage"] == 1


class Streaming(GenericFakeChatModel):
    """Streams two words and, if told so, what they cost."""

    costs: bool = True

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for word in ("a", "b"):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        if self.costs:
            usage = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
            yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=usage))


@pytest.mark.parametrize("costs", [True, False])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_streamed_turn_has_the_usage_of_its_last_chunk(traced, costs, is_async):
    """Streaming is one turn, with usage if the stream says it."""
    model = Streaming(messages=iter([]), costs=costs)

    async def anode(state):
        return {"log": [chunk.content async for chunk in model.astream("hello")]}

    run(
        anode if is_async else lambda state: {"log": [c.content for c in model.stream("hello")]},
        is_async=is_async,
    )
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.output_tokens) == ((4, 2) if costs else (None, None))


def test_a_stream_that_is_left_ends_its_turn(traced):
    """A node that takes one chunk and goes leaves no turn open, and no error."""
    model = Streaming(messages=iter([]))
    run(lambda state: {"log": [next(iter(model.stream("hello"))).content]})
    (turn,) = traced.trace.turns
    assert turn.status == "cancelled"


@pytest.mark.parametrize("is_inside", [False, True], ids=["agent", "node"])
def test_a_call_that_is_given_up_ends_its_turn_there(traced, is_inside):
    """LangChain tells nobody that an asynchronous call is cancelled, as by a limit of time."""

    class Waits(Model):
        async def _agenerate(self, *args, **kwargs):
            await asyncio.Event().wait()

    @orchtrace.agent
    async def hurries():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Waits(responses=[]).ainvoke("hello"), 0.01)

    async def node(state):
        await hurries()
        return {"log": ["done"]}

    if is_inside:
        run(node, is_async=True)
    else:
        asyncio.run(orchtrace.team(hurries)())
    (turn,) = traced.trace.turns
    assert turn.status == "cancelled"
    (agent,) = [s for s in traced.spans if s.attributes.get(a.AGENT_NAME) == "hurries"][:1]
    (chat,) = [s for s in traced.spans if s.name.startswith("chat")]
    assert chat.end_time <= agent.end_time


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("is_inside", [False, True], ids=["node", "graph"])
def test_a_call_that_goes_on_after_its_node_keeps_its_tokens(traced, is_async, is_inside):
    """One that another node waits for; it is its turn all the same."""
    begun, go = threading.Event(), threading.Event()

    class Waits(Model):
        def _generate(self, *args, **kwargs):
            begun.set()
            assert go.wait(5)
            return super()._generate(*args, **kwargs)

    model = Waits(responses=[answer("said", tokens=(2, 1))])
    calls: list[Any] = []

    async def abegins(state):
        calls.append(asyncio.create_task(model.ainvoke("hello")))
        await asyncio.to_thread(begun.wait, 5)

    async def awaits(state):
        go.set()
        return {"log": [(await calls[0]).content]}

    def begins(state):
        calls.append(pool.submit(model.invoke, "hello"))
        assert begun.wait(5)

    def waits(state):
        go.set()
        return {"log": [calls[0].result().content]}

    with ThreadPoolExecutor() as pool:
        first = chain(abegins if is_async else begins)
        graph = chain(
            first if is_inside else abegins if is_async else begins, awaits if is_async else waits
        )
        result = asyncio.run(graph.ainvoke({})) if is_async else graph.invoke({})
    assert result == {"log": ["said"]}
    (turn,) = traced.trace.turns
    assert (turn.agent, turn.status) == ("0", "ok")
    assert traced.trace.costs["tokens"] == 3


def test_calls_at_once_that_the_host_gave_one_id_are_a_turn_each(traced):
    """LangChain takes any id for a run; both end, and the tokens of both count."""
    model = Model(responses=[answer("said", tokens=(2, 1))])
    given = {"run_id": uuid4()}

    async def node(state):
        said = await asyncio.gather(*(model.ainvoke("hello", given) for _ in range(2)))
        return {"log": [one.content for one in said]}

    assert run(node, is_async=True) == {"log": ["said", "said"]}
    assert [turn.status for turn in traced.trace.turns] == ["ok", "ok"]
    assert traced.trace.costs["tokens"] == 6


def test_a_turn_that_fails_is_an_error_of_its_class(traced):
    """A model's exception reaches the node as it is; the turn names its class."""

    class Failing(Model):
        def _generate(self, *args, **kwargs):
            raise TimeoutError("with a secret")

    def node(state):
        with pytest.raises(TimeoutError):
            Failing(responses=[]).invoke("hello")
        return {"log": []}

    run(node)
    (turn,) = traced.trace.turns
    assert turn.status == "error"
    span = next(span for span in traced.spans if span.name == "chat asked-model")
    assert span.attributes[a.ERROR_TYPE] == "TimeoutError"


def test_a_text_model_is_a_turn_and_a_batch_several(traced):
    """Models of plain text count too, one turn a prompt."""
    model = FakeListLLM(responses=["a", "b"])
    run(lambda state: {"log": model.batch(["x", "y"])})
    assert len(traced.trace.turns) == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_tool_call_is_paired_with_its_turn_and_current_in_its_body(traced, is_async):
    """The turn that asked is named on the call by the call's id; its tokens count there."""
    used = adouble if is_async else double
    model = Model(responses=[answer(tokens=(5, 2), calls=[("call-1", used.name)])])

    def node(state):
        asked = model.invoke("hello")
        return {"log": [used.invoke(asked.tool_calls[0]).content]}

    async def anode(state):
        asked = await model.ainvoke("hello")
        return {"log": [(await used.ainvoke(asked.tool_calls[0])).content]}

    assert run(anode if is_async else node, is_async=is_async)["log"] == ["2"]
    trace = traced.trace
    (turn,) = trace.turns
    call = next(event for event in trace.events if event.verb == "tool_call")
    assert (call["tool"], call["turns"], call["tokens"]) == (used.name, [turn.id], 7)
    spans = {span.name: span for span in traced.spans}
    assert spans[f"execute_tool {used.name}"].attributes[a.TOOL_CALL_ID] == "call-1"
    assert spans["in the tool"].parent.span_id == spans[f"execute_tool {used.name}"].context.span_id


def test_one_tool_after_another_depends_on_it(traced):
    """A tool's result is a cause of what the node does next."""
    run(lambda state: {"log": [str(double.invoke({"x": double.invoke({"x": 1})}))]})
    results = [e.id for e in traced.trace.events if e.verb == "tool_result"]
    calls = [e.id for e in traced.trace.events if e.verb == "tool_call"]
    edges = {(e.src, e.dst) for e in traced.trace.edges if e.type == "tool_dependency"}
    end = next(e.id for e in traced.trace.events if e.verb == "return")
    assert edges == {(results[0], calls[1]), (results[1], end)}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_one_turn_asks_for_at_once_does_not_depend_on_each_other(traced, is_async):
    """A ToolNode's calls follow from the node alone; what comes next follows from both."""
    prebuilt = pytest.importorskip(
        "langgraph.prebuilt",
        exc_type=ImportError,
        reason="pip pairs LangGraph 1.0 with prebuilt nodes that need what only 1.1 has",
    )
    model = Model(responses=[answer(tokens=(5, 2), calls=[("1", "double"), ("2", "double")])])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke("hello")]})
    graph.add_node("tools", prebuilt.ToolNode([double]))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    compiled = graph.compile()
    asyncio.run(compiled.ainvoke({"messages": []})) if is_async else compiled.invoke(
        {"messages": []}
    )
    trace = traced.trace
    (turn,) = trace.turns
    calls = [span for span in traced.spans if span.name == "execute_tool double"]
    assert [call.attributes[a.TURNS] for call in calls] == [(turn.id,)] * 2
    verbs = {event.id: event.verb for event in trace.events}
    edges = [(verbs[e.src], verbs[e.dst]) for e in trace.edges if e.type == "tool_dependency"]
    assert edges == [("tool_result", "return")] * 2
    assert trace.costs["tokens"] == 7


@pytest.mark.parametrize("is_graph", [False, True], ids=["nodes", "graphs"])
def test_calls_of_one_id_are_each_their_own_agents(traced, is_graph):
    """Some servers count the calls of an answer from 0: agents at once then ask for the same id."""
    meet = threading.Barrier(2)

    def asks(state):
        model = Model(responses=[answer(tokens=(1, 1), calls=[("0", "double")])])
        return {"messages": [model.invoke("hello")]}

    def acts(state):
        meet.wait(5)
        return {"messages": [double.invoke(state["messages"][-1].tool_calls[0])]}

    agent = StateGraph(MessagesState)
    agent.add_node("asks", asks)
    agent.add_node("acts", acts)
    agent.add_edge(START, "asks")
    agent.add_edge("asks", "acts")
    team = StateGraph(MessagesState)
    for side in ("left", "right"):
        team.add_node(side, agent.compile() if is_graph else lambda state: acts(asks(state)))
        team.add_edge(START, side)
    team.compile().invoke({"messages": []})
    spans = {format(span.context.span_id, "016x"): span for span in traced.spans}

    def side_of(span):
        while (agent := span.attributes.get("gen_ai.agent.name")) not in ("left", "right"):
            span = spans[format(span.parent.span_id, "016x")]
        return agent

    calls = [event for event in traced.trace.events if event.verb == "tool_call"]
    sides = [
        (
            side_of(spans[event.id.partition(".")[0]]),
            [side_of(spans[id_]) for id_ in event["turns"]],
        )
        for event in calls
    ]
    assert sorted(sides) == [("left", ["left"]), ("right", ["right"])]
    assert [event["tokens"] for event in calls] == [2, 2]


def test_a_tool_that_fails_or_answers_with_its_error_is_an_error(traced):
    """Raised or handled, the call's status is error; the host sees what it would have."""
    error = ToolException("no")

    @tool
    def raises(x: int) -> int:
        """Raise."""
        raise error

    @tool
    def handles(x: int) -> int:
        """Raise."""
        raise error

    handles.handle_tool_error = True

    def node(state):
        with pytest.raises(ToolException) as caught:
            raises.invoke({"x": 1})
        assert caught.value is error
        call = {"name": "handles", "args": {"x": 1}, "id": "1", "type": "tool_call"}
        return {"log": [handles.invoke(call).content]}

    assert run(node)["log"] == ["no"]
    results = [e for e in traced.trace.events if e.verb == "tool_result"]
    assert [(e["tool"], e["status"]) for e in results] == [
        ("raises", "error"),
        ("handles", "error"),
    ]


def test_a_pause_in_a_tool_is_no_error(traced):
    """`interrupt()` in a tool pauses the call, the task and the run."""
    from langgraph.checkpoint.memory import InMemorySaver

    @tool
    def ask(x: int) -> int:
        """Ask a human."""
        return interrupt("?")

    graph = StateGraph(State)
    graph.add_node("node", lambda state: {"log": [ask.invoke({"x": 1})]})
    graph.add_edge(START, "node")
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke({}, {"configurable": {"thread_id": "1"}})
    ends = [e["status"] for e in traced.trace.events if e.verb in ("tool_result", "return", "stop")]
    assert ends == ["paused"] * 3


def test_a_graph_called_in_a_tool_is_spawned_by_the_call(traced, read):
    """An agent as a tool: its run follows from the tool call."""
    inner = StateGraph(State)
    inner.add_node("x", lambda state: {"log": ["x"]})
    inner.add_edge(START, "x")
    compiled = inner.compile(name="inner")

    @tool
    def consult(x: int) -> str:
        """Ask the other team."""
        return compiled.invoke({})["log"][0]

    run(lambda state: {"log": [consult.invoke({"x": 1})]})
    events = {event.id: event for event in traced.trace.events}
    spawn = next(e for e in events.values() if e["instance"] == "inner#1" and e.verb == "spawn")
    assert [events[e.src].verb for e in traced.trace.edges if e.dst == spawn.id] == ["tool_call"]


def test_models_and_tools_outside_a_run_are_not_traced(traced):
    """Without an agent around them there is nothing to record."""
    Model(responses=[answer("hi")]).invoke("hello")
    double.invoke({"x": 1})
    assert [span.name for span in traced.spans] == ["in the tool"]


def test_models_and_tools_in_decorated_code_are_traced_too(traced):
    """A plain `@orchtrace.agent` that calls LangChain gets its turns and tool calls."""
    model = Model(responses=[answer(tokens=(5, 2), calls=[("call-9", "double")])])

    @orchtrace.agent("solo")
    def solo():
        return double.invoke(model.invoke("hello").tool_calls[0]).content

    assert solo() == "2"
    call = next(event for event in traced.trace.events if event.verb == "tool_call")
    assert call["turns"] == [traced.trace.turns[0].id]
