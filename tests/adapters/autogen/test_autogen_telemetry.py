"""AutoGen's own spans: beside ours, or not, but never a second agent, tool or token, or a text."""

import asyncio
import json
import sys
from types import ModuleType

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core.tools import BaseTool, FunctionTool
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_otel.builder import SpanRecord, build, foreign_attributes, is_ours
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.testing import capture

CANARY = "canary-51ac"
MODES = ("reuse", "quiet", "replace")


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv("ORCHTRACE_AUTOGEN_TELEMETRY", request.param)
    return request.param


@pytest.fixture
def recorded(mode, request):
    """All that is recorded in a mode; `traced` must be made after the mode is chosen."""
    return request.getfixturevalue("traced")


async def add(a: int, b: int) -> int:
    """Add canary-51ac numbers."""
    return a + b


def _pair(script) -> RoundRobinGroupChat:
    call = script.calls(("c1", "add", '{"a": 1, "b": 2}'))
    first = script.agent("first", call, tools=[add], description=f"the {CANARY}")
    return RoundRobinGroupChat([first, script.agent("second", "three")], max_turns=2)


def _theirs(captured):
    """AutoGen's spans, and the name of the span that each is in."""
    names = {span.context.span_id: span for span in captured.spans}
    found = [span for span in captured.spans if span.instrumentation_scope.name == "autogen-core"]
    return [(span, names.get(span.parent.span_id)) for span in found]


def test_mode_is_checked_when_hooks_go_in(monkeypatch) -> None:
    """A word that is no mode is told at once."""
    monkeypatch.setenv("ORCHTRACE_AUTOGEN_TELEMETRY", "loud")
    with pytest.raises(ConfigError, match="ORCHTRACE_AUTOGEN_TELEMETRY must be one of"):
        orchtrace.instrument("autogen")


def test_mode_decides_which_spans_of_autogen_there_are(mode, recorded, script) -> None:
    """They lie right inside ours of the same name, and only `reuse` says which they repeat."""
    asyncio.run(_pair(script).run(task="go"))
    theirs = _theirs(recorded)
    expected = ["execute_tool add", "invoke_agent first", "invoke_agent second"]
    assert [span.name for span, _ in theirs] == ([] if mode == "replace" else expected)
    for span, around in theirs:
        assert around.name == span.name
        assert around.instrumentation_scope.name == "orchtrace_otel"
        assert span.attributes["gen_ai.system"] == "autogen"
        ours = {key for key in span.attributes if key.startswith("orchtrace.")}
        assert ours == ({"orchtrace.activation"} if mode == "reuse" else set())
    for span, around in theirs:
        if mode == "reuse" and span.name.startswith("invoke_agent"):
            assert span.attributes["orchtrace.activation"] == f"{around.context.span_id:016x}"


def test_ids_that_a_model_broke_off_reach_a_collector(mode, recorded, script, caplog) -> None:
    """Half a surrogate pair in the id of a call would lose the batch with it, in any span."""
    call = script.calls(("c\ud83d", "add", '{"a": 1, "b": 2}'))
    team = RoundRobinGroupChat([script.agent("first", call, tools=[add])], max_turns=1)
    asyncio.run(team.run(task="go"))
    assert encode_spans(recorded.spans).ByteSize()
    assert "Failed to encode" not in caplog.text
    ids = {span.attributes.get("gen_ai.tool.call.id") for span in recorded.spans}
    assert ids - {None} == {"c\ufffd"}


def test_trace_is_the_same_in_every_mode(script, read, monkeypatch) -> None:
    """Nothing of AutoGen's is an activation, a tool call or a turn: inline and by a collector."""
    outlines, costs = [], []
    for mode in MODES:
        monkeypatch.setenv("ORCHTRACE_AUTOGEN_TELEMETRY", mode)
        with capture() as captured, orchtrace.instrument("autogen"):
            asyncio.run(_pair(script).run(task="go"))
        trace = captured.trace
        outlines.append(read.outline(trace))
        costs.append({key: trace.costs[key] for key in ("tokens", "tool_calls", "messages")})
        collected = build(trace.trace_id, [_as_received(span) for span in captured.spans])
        assert read.outline(collected) == outlines[-1]
        assert collected.costs == trace.costs
    assert outlines[0] == outlines[1] == outlines[2]
    assert costs == [{"tokens": 26, "tool_calls": 1, "messages": 2}] * 3


def _as_received(span) -> SpanRecord:
    """What a collector keeps of a span."""
    found = dict(span.attributes)
    return SpanRecord(
        f"{span.context.span_id:016x}",
        None if span.parent is None else f"{span.parent.span_id:016x}",
        span.start_time,
        span.end_time,
        found if is_ours(found) else foreign_attributes(found),
        span.status.status_code.name == "ERROR",
    )


def test_texts_of_people_and_errors_stay_inside(mode, recorded, script, plain, caplog) -> None:
    """Messages, descriptions and texts of exceptions are on no span, AutoGen's included."""
    caplog.set_level("CRITICAL", logger="autogen_core")

    def fail(_: int) -> str:
        raise LookupError(CANARY)

    async def broken(x: int) -> int:
        """Fail, canary-51ac."""
        raise OSError(CANARY)

    call = script.calls(("c1", "broken", '{"x": 1}'))
    first = script.agent("first", call, tools=[broken], description=CANARY)
    team = RoundRobinGroupChat([first, plain("second", fail)], max_turns=2)
    with pytest.raises(RuntimeError, match=CANARY):
        asyncio.run(team.run(task=CANARY))
    assert CANARY not in json.dumps([json.loads(span.to_json()) for span in recorded.spans])
    assert CANARY not in recorded.trace.to_json()
    assert {
        (span.name, span.attributes.get("error.type"), span.status.status_code.name)
        for span, _ in _theirs(recorded)
    } == (
        set()
        if mode == "replace"
        else {
            ("invoke_agent first", None, "UNSET"),
            ("execute_tool broken", "OSError", "ERROR"),
            ("invoke_agent second", "LookupError", "ERROR"),
        }
    )


def test_making_agents_begins_no_traces(mode, recorded, script) -> None:
    """`create_agent` is a span only where it is inside another one."""
    asyncio.run(_pair(script).run(task="go"))
    assert [span.name for span in recorded.spans if span.name.startswith("create_agent")] == []
    tracer = recorded.provider.get_tracer("user")
    with tracer.start_as_current_span("request"):
        script.agent("third", "one")
    roots = [span.name for span in recorded.spans if span.parent is None]
    assert roots == ["invoke_workflow RoundRobinGroupChat", "request"]


def test_stream_closed_elsewhere_leaves_no_complaint(mode, recorded, script) -> None:
    """An agent's own span is current nowhere, so that any task may end the stream."""

    async def elsewhere() -> None:
        outside = otel.get_current_span()
        alone = script.agent("alone", "done").run_stream(task="go")
        await asyncio.create_task(anext(alone))
        await asyncio.create_task(alone.aclose())
        assert otel.get_current_span() is outside

    asyncio.run(elsewhere())
    assert recorded.trace.stop["stop_reason"] == "consumer_closed"
    assert len(_theirs(recorded)) == (0 if mode == "replace" else 1)


def test_agent_behind_a_tool_has_one_activation(mode, recorded, script, read) -> None:
    """Whatever nests: a span of AutoGen's for each of ours, and ours alone count."""
    inner = script.agent("inner", "deep", description="inner")
    outer = script.agent(
        "outer", script.calls(("i", "inner", '{"task": "x"}')), tools=[AgentTool(inner)]
    )
    asyncio.run(RoundRobinGroupChat([outer], max_turns=1).run(task="go"))
    assert read.openings(recorded.trace)[1:] == [("spawn", "outer"), ("spawn", "inner")]
    expected = ["execute_tool inner", "invoke_agent inner", "invoke_agent outer"]
    names = sorted(span.name for span, _ in _theirs(recorded))
    assert names == ([] if mode == "replace" else expected)


def test_tool_outside_a_run_begins_no_trace(mode, recorded) -> None:
    """A tool that the host runs itself is no run, and no root of AutoGen's."""
    from autogen_core import CancellationToken

    tool = FunctionTool(add, description=CANARY)
    result = asyncio.run(tool.run_json({"a": 1, "b": 2}, CancellationToken()))
    assert result == 3
    assert recorded.started == 0


def test_workbench_loaded_later_is_under_the_same_rules(mode, recorded, script) -> None:
    """A module of AutoGen's that makes spans of tools itself, such as MCP's, is followed too."""
    source = """
from autogen_core import trace_tool_span
from autogen_core.tools import TextResultContent, ToolResult, Workbench

class Late(Workbench):
    component_type = "workbench"
    async def list_tools(self):
        return [{"name": "far", "description": "canary-51ac"}]
    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        with trace_tool_span(tool_name=name, tool_description="canary-51ac", tool_call_id=call_id):
            return ToolResult(name=name, result=[TextResultContent(content="canary-51ac")])
    async def start(self): pass
    async def stop(self): pass
    async def reset(self): pass
    async def save_state(self): return {}
    async def load_state(self, state): pass
"""
    module = ModuleType("autogen_ext_late")
    sys.modules[module.__name__] = module
    try:
        exec(source, vars(module))  # noqa: S102 - a module that is loaded while the hooks are in
        agent = script.agent("a", script.calls(("c1", "far", "{}")), workbench=module.Late())
        asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="go"))
    finally:
        del sys.modules[module.__name__]
    assert CANARY not in json.dumps([json.loads(span.to_json()) for span in recorded.spans])
    names = [span.name for span, _ in _theirs(recorded)]
    assert names == ([] if mode == "replace" else ["execute_tool far", "invoke_agent a"])
    assert recorded.trace.costs["tool_calls"] == 1


def test_helpers_are_autogens_own_again(mode) -> None:
    """Taken out, every module has the very helper back."""
    import autogen_core.tools._base as tools
    from autogen_core import trace_tool_span

    with orchtrace.instrument("autogen"):
        assert tools.trace_tool_span is not trace_tool_span
    assert tools.trace_tool_span is trace_tool_span
    assert type(vars(BaseTool)["run_json"]).__name__ == "function"
