"""Content of LangGraph's teams: turns, tools and tasks, and a secret that is found nowhere."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.language_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, Send, interrupt
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_langgraph import _content
from orchtrace_otel import content
from orchtrace_otel.content import Capture, open_store, read_turn
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.content.witness import of_parts
from orchtrace_otel.testing import capture

CANARY = "canary-9b2d"
KEY = f"sk-{CANARY}-0123456789abcdef"


class Model(FakeMessagesListChatModel):
    """A scripted model with a name, which is asked with tools."""

    model_name: str = "asked"
    asked: tuple[dict[str, Any], ...] = ()

    def _get_invocation_params(self, stop: Any = None, **kwargs: Any) -> dict[str, Any]:
        return {"tools": [*self.asked], "temperature": 0.25, "api_key": KEY, "stop": stop}


class Streaming(GenericFakeChatModel):
    """A model that streams words."""


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Turns content on as told; off again afterwards."""

    def turn(**fields: Any) -> Any:
        given = {"mode": "SPAN_AND_EVENT", "store": str(tmp_path / "store"), **fields}
        return set_up(Capture(**given), None)

    yield turn
    recorder = content.use(None)
    if recorder is not None:
        recorder.shutdown(10)


def calling(text: str = "", **more: Any) -> AIMessage:
    call = {"name": "look", "args": {"query": KEY}, "id": "c1"}
    return AIMessage(text, tool_calls=[call], **more)


@tool
def look(query: str) -> str:
    """Find what is asked."""
    return f"found {query}"


def graph_of(model: Any, tools: Any = (look,)) -> Any:
    """A loop of a model and its tools, which keeps the history."""

    def agent(state: Any) -> Any:
        return {"messages": [model.invoke([SystemMessage("be good"), *state["messages"]])]}

    def route(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else "__end__"

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(list(tools), handle_tool_errors=False))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", route, ["tools", "__end__"])
    graph.add_edge("tools", "agent")
    return graph.compile()


SERVED = {
    "vllm": {
        "response_metadata": {
            "model_name": "answered",
            "finish_reason": "tool_calls",
            "id": "r1",
            "token_ids": [5, 6],
            "prompt_token_ids": [1, 2, 3],
            "logprobs": {"content": [{"token": "a", "logprob": -0.5}] * 2},
        }
    },
    "sglang": {
        "additional_kwargs": {
            "prompt_token_ids": [1, 2, 3],
            "meta_info": {
                "output_token_logprobs": [[-0.5, 5, "a"], [-0.5, 6, "b"]],
                "weight_version": "step-9",
            },
        },
        "response_metadata": {
            "model_name": "answered",
            "finish_reason": "tool_calls",
            "id": "r1",
        },
    },
    "openai": {
        "response_metadata": {
            "model_name": "answered",
            "finish_reason": "tool_calls",
            "id": "r1",
            "logprobs": {"content": [{"token": "a", "logprob": -0.5}] * 2},
        }
    },
}


@pytest.mark.parametrize("server", SERVED)
def test_turns_hold_what_a_server_told(traced, on, tmp_path, server) -> None:
    """Messages, tools, parameters; ids and log probabilities as far as the server gives them."""
    recorder = on(redact_defaults=False)
    schema = {"properties": {"query": {"type": "string"}}, "type": "object"}
    function = {"name": "look", "description": "Find.", "parameters": schema}
    model = Model(
        responses=[calling("I look", **SERVED[server]), AIMessage("done")],
        asked=[{"type": "function", "function": function}],
    )
    graph_of(model).invoke({"messages": [HumanMessage("who?", name="ann")]})
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    first, second = (read_turn(store, turn.content_ref) for turn in traced.trace.turns)
    system = {"role": "system", "parts": [{"type": "text", "content": "be good"}]}
    user = {"role": "user", "parts": [{"type": "text", "content": "who?"}], "name": "ann"}
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"query": KEY}}
    said = {"role": "assistant", "parts": [{"type": "text", "content": "I look"}, call]}
    answer = {"type": "tool_call_response", "id": "c1", "response": f"found {KEY}"}
    assert first.prompt == (system, user)
    assert first.completion == (said,)
    assert second.prompt == (
        system,
        user,
        said,
        {"role": "tool", "parts": [answer], "name": "look"},
    )
    assert second.prompt_refs[2] == first.completion_refs[0]
    assert first.tools == ({"type": "function", **function},)
    assert first.parameters == {"temperature": 0.25}
    assert (first.model, first.response_model, first.response_id) == ("asked", "answered", "r1")
    assert first.finish_reasons == ("tool_calls",)
    tokens = first.tokens
    assert tokens.logprobs == (-0.5, -0.5)
    if server == "openai":
        assert (tokens.provenance, tokens.ids, tokens.why_absent) == ("absent", (), "not given")
    else:
        assert (tokens.provenance, tokens.prompt_ids, tokens.ids) == ("exact", (1, 2, 3), (5, 6))
        assert tokens.mask == (1, 1)
    assert first.policy_version == ("step-9" if server == "sglang" else None)


def test_tools_hold_arguments_and_results(traced, on, tmp_path) -> None:
    """On the events of the trace by ref, on spans in the conventions' shape."""
    recorder = on(redact_defaults=False)
    graph_of(Model(responses=[calling(), AIMessage("done")])).invoke({"messages": ["who?"]})
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    held = {
        event.verb: store.get(event["content_ref"]).body["value"]
        for event in traced.trace.events
        if event.verb in {"tool_call", "tool_result", "begin"}
    }
    assert held == {
        "begin": {"messages": ["who?"]},
        "tool_call": {"query": KEY},
        "tool_result": f"found {KEY}",
    }
    span = next(span for span in traced.spans if span.name == "execute_tool look")
    assert span.attributes["gen_ai.tool.call.arguments"] == f'{{"query":"{KEY}"}}'
    assert span.attributes["gen_ai.tool.call.result"] == f'"found {KEY}"'


def test_what_langgraph_puts_beside_arguments_is_not_kept(traced, on, tmp_path) -> None:
    """A tool that is given the state, and answers with a command, keeps the history out."""

    @tool
    def hand_over(
        query: str,
        state: Annotated[dict, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
    ) -> Command:
        """Hand over to another."""
        said = ToolMessage("over", tool_call_id=call_id)
        return Command(goto="agent", update={"messages": [*state["messages"], said]})

    recorder = on(redact_defaults=False)
    call = {"name": "hand_over", "args": {"query": "q"}, "id": "c1"}
    model = Model(responses=[AIMessage("", tool_calls=[call]), AIMessage("done")])
    graph_of(model, [hand_over]).invoke({"messages": ["the history"]})
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    held = {
        event.verb: store.get(event["content_ref"]).body
        for event in traced.trace.events
        if event.verb in {"tool_call", "tool_result"}
    }
    assert held == {
        "tool_call": {"value": {"query": "q"}},
        "tool_result": {"value": {"goto": ["agent"]}},
    }


def test_of_several_commands_too_only_where_they_go_is_kept(traced, on, tmp_path) -> None:
    """A tool may answer with a list of commands, each of which may hold the state."""

    @tool
    def hand_over(query: str) -> list:
        """Hand over to another."""
        history = {"messages": ["the history"]}
        return [Command(goto="agent", update=history), Command(update=history)]

    @orchtrace.agent
    def asks() -> None:
        hand_over.invoke({"query": "q"})

    recorder = on()
    asks()
    assert recorder.flush(30)
    (held,) = (event["content_ref"] for event in traced.trace.events if event.verb == "tool_result")
    assert open_store(tmp_path / "store").get(held).body == {
        "value": [{"goto": ["agent"]}, {"goto": []}]
    }


def test_a_streamed_answer_is_one_message(traced, on, tmp_path) -> None:
    """Also where the model is asked under asyncio, or gives a plain text."""
    recorder = on()
    streaming = Streaming(messages=iter([AIMessage("two words")]))

    async def agent(state: Any) -> Any:
        chunks = [chunk async for chunk in streaming.astream(state["messages"])]
        text = await FakeListLLM(responses=["plain"]).ainvoke("a prompt")
        return {"messages": [AIMessage(str(len(chunks)) + text)]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    asyncio.run(graph.compile().ainvoke({"messages": ["hi"]}))
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    found = [read_turn(store, turn.content_ref) for turn in traced.trace.turns]
    said = [turn.completion[0]["parts"][0]["content"] for turn in found]
    asked = [turn.prompt[0]["parts"][0]["content"] for turn in found]
    assert (asked, said) == (["hi", "a prompt"], ["two words", "plain"])


def test_a_turn_that_failed_keeps_its_prompt_and_the_error(traced, on, tmp_path) -> None:
    """There is no completion; the error's text is content."""

    class Failing(Model):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise TimeoutError(f"no answer, token={KEY}")

    recorder = on()
    with pytest.raises(TimeoutError, match="no answer"):
        graph_of(Failing(responses=[])).invoke({"messages": ["who?"]})
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    (turn,) = traced.trace.turns
    found = read_turn(store, turn.content_ref)
    assert (len(found.prompt), found.completion) == (2, ())
    stop = traced.trace.stop
    assert stop["stop_detail"] == "TimeoutError: no answer, token=[redacted]"
    held = store.get(stop["content_ref"]).body["value"]["error"]
    assert held == {"type": "TimeoutError", "message": "no answer, token=[redacted]"}


def goes_on(here: Any) -> Any:
    """A graph with nodes `first` and `last`; where it goes from the first, `here` says."""
    graph = StateGraph(MessagesState)
    graph.add_node("first", here)
    graph.add_node("last", lambda state: {"messages": []})
    return graph.add_edge(START, "first")


def outwards(state: Any) -> Command[Any]:
    return Command(goto=[KEY, Send(KEY, {}), "last"], graph=Command.PARENT)


@pytest.mark.parametrize("way", ["router", "command", "hand-off"])
def test_a_goal_that_is_no_node_is_a_text_and_not_told(way) -> None:
    """As where a router goes by what its model answers, whatever that is."""
    with capture() as traced, orchtrace.instrument("langgraph"):
        lead_astray(way)
    verb = "delegate" if way == "hand-off" else "decide"
    told = [event for event in traced.trace.events if event.verb == verb]
    names = [name for event in told for name in event.get("chosen") or [event["to"]]]
    assert set(names) == {"unknown", "last"}
    assert CANARY not in "".join(span.to_json() for span in traced.spans)
    assert CANARY not in traced.trace.to_json()


def lead_astray(way: str) -> None:
    nothing = {"messages": []}
    if way == "router":
        graph = goes_on(lambda state: nothing)
        graph.add_conditional_edges("first", lambda state: [KEY, "last", Send(KEY, {})])
    elif way == "command":
        graph = goes_on(lambda state: Command(goto=[KEY, Send(KEY, {}), "last"]))
    else:
        inner = StateGraph(MessagesState).add_node("inner", outwards).add_edge(START, "inner")
        graph = goes_on(inner.compile())
    graph.compile().invoke({"messages": ["who?"]})


@pytest.mark.parametrize("mode", ["off", "NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"])
def test_a_secret_is_found_nowhere(traced, on, tmp_path, mode, caplog) -> None:
    """Neither while content is off, nor after redaction while it is on."""
    caplog.set_level(logging.DEBUG, logger="orchtrace_otel")
    recorder = None if mode == "off" else on(mode=mode)
    told = {
        "finish_reason": "stop",
        "model_name": "m",
        "token_ids": [5],
        "headers": {"Authorization": KEY},
        "logprobs": {"content": [{"token": KEY, "logprob": -1.0}]},
    }
    blocks = [{"type": "text", "text": KEY}, {"type": "image_url", "image_url": f"http://{KEY}@h"}]
    tools = [{"type": "function", "function": {
        "name": "look", "description": KEY, "parameters": {"description": KEY}}}]  # fmt: skip
    answers = [
        calling(KEY, response_metadata=told, additional_kwargs={"reasoning_content": KEY}),
        calling(KEY, response_metadata=told),
    ]

    @tool
    def look(query: str) -> str:
        """Fail with what is asked."""
        raise ValueError(f"{query} https://u:{KEY}@h/?api_key={KEY}", KEY)

    asked = {"messages": [HumanMessage(blocks, name=KEY, id=KEY, additional_kwargs={"k": KEY})]}
    config = {"metadata": {"k": KEY}, "configurable": {"thread_id": KEY}, "recursion_limit": 6}
    with pytest.raises(ValueError, match=CANARY):
        graph_of(Model(responses=answers, asked=tools), [look]).invoke(asked, config)
    assert recorder is None or recorder.flush(30)
    shown = "".join(span.to_json() for span in traced.spans) + traced.trace.to_json()
    otlp = encode_spans(traced.spans).SerializeToString()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert CANARY not in shown + caplog.text
    assert CANARY.encode() not in otlp + stored
    assert ("[redacted]" in shown) == mode.startswith("SPAN")
    assert (b"[redacted]" in stored) == (mode in {"EVENT_ONLY", "SPAN_AND_EVENT"})


def test_what_a_person_is_asked_and_answers_is_content(traced, on, tmp_path) -> None:
    """Of an interrupt and of the run that goes on from it."""
    recorder = on()
    graph = StateGraph(MessagesState)
    graph.add_node("asks", lambda state: {"messages": [interrupt({"may I?": "token=abc"})]})
    graph.add_edge(START, "asks")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    compiled.invoke({"messages": ["go"]}, config)
    compiled.invoke(Command(resume="you may"), config)
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    held = [
        (event["name"], store.get(event["content_ref"]).body["value"])
        for trace in traced.traces
        for event in trace.events
        if event.verb == "human_intervention"
    ]
    assert held == [("interrupt", {"may I?": "token=[redacted]"}), ("resume", "you may")]


CALL = {"name": "look", "args": {"q": "x"}, "id": "c", "type": "tool_call"}
BROKEN = {"name": "look", "args": '{"what": tide', "id": "d", "error": "no JSON"}
UNLIKE = [
    ChatMessage("x", role="user"),
    ChatMessage("x", role="critic"),
    HumanMessage("x"),
    HumanMessage("x", name="ann"),
    AIMessage("x"),
    AIMessage("x", tool_calls=[CALL]),
    AIMessage([CALL]),
    AIMessage("", tool_calls=[CALL]),
    AIMessage("", invalid_tool_calls=[BROKEN]),
    AIMessage("x", additional_kwargs={"reasoning_content": "why"}),
    AIMessage(["x", {"type": "text", "text": "y"}]),
    ToolMessage("x", tool_call_id="c"),
    ToolMessage("x", tool_call_id="d"),
    "x",
    {"role": "system", "content": "x"},
    {"role": "user", "content": "x", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
    {"role": "user", "content": "x", "tool_calls": ({"id": "c"},)},
]


@pytest.mark.parametrize("kind", ["tool_use", "tool_call", "function_call"])
def test_a_call_of_a_tool_that_a_block_names_too_is_one(kind: str) -> None:
    """As Anthropic, the Responses API and LangChain's own blocks put it beside the words."""
    block = {"type": kind, "id": "c", "name": "look", "arguments": "{}"}
    message = AIMessage(["x", block], tool_calls=[CALL])
    kinds = [part["type"] for part in _content.shape(message)["parts"]]
    assert kinds == ["text", "tool_call"]


def test_a_call_whose_arguments_nobody_can_read_is_what_the_model_wrote() -> None:
    """LangChain puts it beside those that run; servers send it back as it was written."""
    message = AIMessage("I look.", tool_calls=[CALL], invalid_tool_calls=[BROKEN])
    _, known, broken = _content.shape(message)["parts"]
    assert (known["id"], broken["id"]) == (CALL["id"], BROKEN["id"])
    assert (broken["name"], broken["arguments"]) == ("look", '{"what": tide')


def test_messages_that_are_unlike_look_unlike() -> None:
    """What is known of one is never taken for the other, be they equal in all but one thing."""
    known: dict[Any, Any] = {}
    for message in UNLIKE:
        seen = of_parts(_content.look(message))
        assert seen is not None
        assert known.setdefault(seen, _content.shape(message)) == _content.shape(message)
    assert len(known) == len(UNLIKE)

    class Odd:
        """A prompt that is neither a message nor a text."""

        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    assert of_parts(_content.look(Odd(said="x"))) != of_parts(_content.look(Odd(said="y")))
