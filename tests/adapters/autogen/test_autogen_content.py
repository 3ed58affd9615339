"""Content of AutoGen's teams: turns, tools, messages and stops, and a secret found nowhere."""

import asyncio
import logging

import pytest
from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionTokenLogprob, CreateResult, RequestUsage
from autogen_core.tools import FunctionTool
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from orchtrace_otel import _guard, content
from orchtrace_otel.content import Capture, open_store, read_turn
from orchtrace_otel.content.setup import set_up

CANARY = "canary-4c8e"
KEY = f"sk-{CANARY}-0123456789abcdef"


@pytest.fixture
def on(tmp_path):
    """Turns content on as told; off again afterwards."""

    def turn(**fields):
        given = {"mode": "SPAN_AND_EVENT", "store": str(tmp_path / "store"), **fields}
        return set_up(Capture(**given), None)

    yield turn
    recorder = content.use(None)
    if recorder is not None:
        recorder.shutdown(10)


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def result(text, *, thought=None, ids=()):
    said = [ChatCompletionTokenLogprob(token=f"token_id:{one}", logprob=-0.5) for one in ids]
    return CreateResult(
        finish_reason="stop",
        content=text,
        usage=RequestUsage(prompt_tokens=7, completion_tokens=3),
        cached=False,
        logprobs=said or None,
        thought=thought,
    )


@pytest.mark.parametrize("stream", [False, True])
def test_turns_hold_messages_tools_and_tokens(traced, on, script, tmp_path, stream) -> None:
    """What an agent's model was asked and said, each message with one ref."""
    recorder = on(policy=lambda model: {"version": f"{model}-7", "logprobs_kind": "processed"})
    asks = script.calls(("c1", "double", '{"x": 2}'))
    asks.thought = "two doubled"
    client = script.client(asks, result("four DONE", ids=(5, 6)))
    client._create_args = {"model": "m", "temperature": 0.25, "api_key": KEY}
    agent = script.agent("a", tools=[double], reflect_on_tool_use=True, system_message="be good",
                         model_client_stream=stream)  # fmt: skip
    agent._model_client = client
    team = RoundRobinGroupChat([agent], termination_condition=TextMentionTermination("DONE"))
    asyncio.run(team.run(task="what is 2*2?"))
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    first, second = (read_turn(store, turn.content_ref) for turn in traced.trace.turns)
    system = {"role": "system", "parts": [{"type": "text", "content": "be good"}]}
    task = {"role": "user", "parts": [{"type": "text", "content": "what is 2*2?"}], "name": "user"}
    call = {"type": "tool_call", "id": "c1", "name": "double", "arguments": {"x": 2}}
    thought = {"type": "reasoning", "content": "two doubled"}
    said = {"role": "assistant", "parts": [thought, call]}
    answer = {"type": "tool_call_response", "id": "c1", "response": "4"}
    assert first.prompt == (system, task)
    assert first.completion == (said,)
    assert second.prompt == (system, task, said, {"role": "tool", "parts": [answer]})
    assert second.prompt_refs[2] == first.completion_refs[0]
    assert [tool["name"] for tool in first.tools] == ["double"]
    assert first.tools[0]["parameters"]["properties"]["x"]["type"] == "integer"
    assert (first.model, first.policy_version, first.reasoning) == ("m", "m-7", "kept")
    assert first.parameters["temperature"] == 0.25
    assert first.tokens.why_absent == "not given"
    tokens = second.tokens
    assert (tokens.provenance, tokens.ids, tokens.logprobs) == ("exact", (5, 6), (-0.5, -0.5))
    assert (tokens.logprobs_kind, tokens.prompt_ids) == ("processed", ())


def test_messages_tools_people_and_stops_have_content(traced, on, script, tmp_path) -> None:
    """Each event of the trace names what was said in it."""
    recorder = on()
    agent = script.agent("a", script.calls(("c1", "double", '{"x": 2}')), tools=[double])
    person = UserProxyAgent("p", input_func=lambda prompt: "go DONE")
    team = RoundRobinGroupChat(
        [agent, person], termination_condition=TextMentionTermination("DONE")
    )
    asyncio.run(team.run(task="begin"))
    assert recorder.flush(30)
    store = open_store(tmp_path / "store")
    held = [
        (event.verb, store.get(event["content_ref"]).body["value"])
        for event in traced.trace.events
        if event.get("content_ref")
    ]
    assert held == [
        ("begin", "begin"),
        ("tool_call", {"x": 2}),
        ("tool_result", "4"),
        ("message", "4"),
        ("human_intervention", "go DONE"),
        ("message", "go DONE"),
        ("stop", "Text 'DONE' mentioned"),
    ]
    assert traced.trace.stop["stop_detail"] == "TextMentionTermination: Text 'DONE' mentioned"


@pytest.mark.parametrize("mode", ["off", "NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"])
def test_a_secret_is_found_nowhere(  # noqa: PLR0913 - fixtures
    traced, on, script, tmp_path, mode, caplog
) -> None:
    """Neither while content is off, nor after redaction while it is on."""
    caplog.set_level(logging.DEBUG, logger="orchtrace_otel")
    recorder = None if mode == "off" else on(mode=mode)

    def look(query: str) -> str:
        raise ValueError(f"{query} https://u:{KEY}@h/?api_key={KEY}")

    tool = FunctionTool(look, description=KEY)
    call = FunctionCall(id="c1", name="look", arguments=f'{{"query": "{KEY}"}}')
    usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
    asks = CreateResult(
        finish_reason="function_calls",
        content=[call],
        usage=usage,
        cached=False,
        thought=KEY,
        logprobs=[ChatCompletionTokenLogprob(token=KEY, logprob=-1.0)],
    )
    client = script.client(asks, result(f"I said {KEY} DONE"))
    client._create_args = {"model": "m", "stop": [KEY], "extra_headers": {"Authorization": KEY}}
    agent = script.agent("a", tools=[tool], system_message=KEY, reflect_on_tool_use=True)
    agent._model_client = client
    person = UserProxyAgent("p", input_func=lambda prompt: f"{KEY} STOP")
    ends = TextMentionTermination(f"{KEY} STOP")
    team = RoundRobinGroupChat([agent, person], termination_condition=ends)
    task = [TextMessage(content=KEY, source="user", metadata={"key": KEY})]
    asyncio.run(team.run(task=task))
    failing = script.agent("f", tools=[tool])
    with pytest.raises(ValueError, match="No more mock"):
        asyncio.run(failing.run(task=KEY))
    assert recorder is None or recorder.flush(30)
    shown = "".join(span.to_json() for span in traced.spans)
    shown += "".join(trace.to_json() for trace in traced.traces)
    otlp = encode_spans(traced.spans).SerializeToString()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert CANARY not in shown + caplog.text
    assert CANARY.encode() not in otlp + stored
    assert ("[redacted]" in shown) == mode.startswith("SPAN")
    assert (b"[redacted]" in stored) == (mode in {"EVENT_ONLY", "SPAN_AND_EVENT"})


@pytest.mark.swallows_errors
def test_content_that_fails_costs_no_span(traced, on, script, monkeypatch) -> None:
    """The turn is recorded with all that is known of it but what was said."""
    on()

    def definitions(tools):
        raise RuntimeError("no schema")

    monkeypatch.setattr("orchtrace_autogen._content.definitions", definitions)
    # As if it had been told once: a second time is only counted.
    _guard.swallowed["orchtrace_autogen._content.turn_opens"] += 1
    agent = script.agent("a", "done", tools=[double])
    result = asyncio.run(agent.run(task="go"))
    assert result.messages[-1].content == "done"
    (turn,) = traced.trace.turns
    assert (turn.status, turn.tokens, turn.content_ref) == ("ok", 10, None)
