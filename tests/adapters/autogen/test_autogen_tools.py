"""Workbenches, memories and executed code: each use is one call of a tool, with its causes."""

import asyncio
from collections.abc import Sequence

import pytest
from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.tools import (
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    Workbench,
)
from autogen_ext.tools.code_execution import PythonCodeExecutionTool

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

CANARY = "canary-8d02"


class Remote(Workbench):
    """A workbench whose tools live elsewhere, as MCP's do; `broken` comes back as an error."""

    component_type = "workbench"

    async def list_tools(self):
        return [{"name": name, "description": CANARY} for name in ("far", "broken", "raising")]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        await asyncio.sleep(0)
        if name == "raising":
            raise ConnectionError(CANARY)
        content = [TextResultContent(content=CANARY)]
        return ToolResult(name=name, result=content, is_error=name == "broken")

    async def start(self) -> None:
        """There is nothing to start."""

    async def stop(self) -> None:
        """There is nothing to stop."""

    async def reset(self) -> None:
        """There is nothing to reset."""

    async def save_state(self):
        return {}

    async def load_state(self, state) -> None:
        """There is no state."""


class Scripted(CodeExecutor):
    """Runs code by saying how it went."""

    component_type = "code_executor"

    def __init__(self, exit_code: int = 0) -> None:
        self.exit_code = exit_code

    async def execute_code_blocks(self, code_blocks: Sequence[CodeBlock], cancellation_token):
        return CodeResult(exit_code=self.exit_code, output=CANARY)

    async def start(self) -> None:
        """There is nothing to start."""

    async def stop(self) -> None:
        """There is nothing to stop."""

    async def restart(self) -> None:
        """There is nothing to restart."""


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def _alone(agent) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([agent], max_turns=1)


def test_remote_workbench_is_one_call_each(traced, script, read) -> None:
    """Results that are errors are, and the texts stay where they are."""
    calls = script.calls(("1", "far", f'{{"x": "{CANARY}"}}'), ("2", "broken", "{}"))
    agent = script.agent("a", calls, workbench=Remote())
    asyncio.run(_alone(agent).run(task="go"))
    assert read.outline(traced.trace)[3:] == [
        "3 a tool_call far <- causal 2",
        "4 a tool_call broken <- causal 2",
        "5 a tool_result far",
        "6 a tool_result broken (error)",
        "7 a message broadcast <- causal 2, tool_dependency 5, tool_dependency 6",
        "8 a return RoundRobinGroupChat <- causal 7",
        "9 RoundRobinGroupChat stop <- causal 8",
    ]
    assert [e["tool_call_id"] for e in traced.trace.events if e.verb == "tool_call"] == ["1", "2"]
    assert CANARY not in traced.trace.to_json()
    assert not any(CANARY in str(dict(span.attributes)) for span in traced.spans)


def test_workbench_that_raises_is_the_agents_error(traced, plain, caplog) -> None:
    """The call, the turn and the run end with the workbench's error; the host sees AutoGen's."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    agent = plain("a", lambda _: Remote().call_tool("raising", call_id="1"))
    with pytest.raises(RuntimeError, match="ConnectionError"):
        asyncio.run(_alone(agent).run(task="go"))
    failed = [(e.verb, e["error_type"]) for e in traced.trace.events if "error_type" in e.keys]
    assert failed == [
        ("tool_result", "ConnectionError"),
        ("return", "ConnectionError"),
        ("stop", "RuntimeError"),
    ]
    assert traced.trace.stop["stop_detail"] == "ConnectionError"


@pytest.mark.parametrize("kind", [StaticWorkbench, StaticStreamWorkbench])
def test_static_workbench_adds_no_second_call(traced, script, kind) -> None:
    """Assistant, workbench and tool are three entries of one call."""
    bench = kind([FunctionTool(add, description="add")])
    agent = script.agent("a", script.calls(("1", "add", '{"a": 1, "b": 2}')), workbench=bench)
    asyncio.run(_alone(agent).run(task="go"))
    assert traced.trace.costs["tool_calls"] == 1
    assert traced.trace.events[-4]["status"] == "ok"


def test_calls_that_a_server_gives_no_ids_are_one_each(traced, script, read) -> None:
    """Each is one call of the turn that asked for it, as with ids, whose tokens the first has."""
    calls = script.calls(("", "add", '{"a": 1, "b": 2}'), ("", "add", '{"a": 3, "b": 4}'))
    agent = script.agent("a", calls, "done", tools=[add], reflect_on_tool_use=True)
    asyncio.run(_alone(agent).run(task="go"))
    trace = traced.trace
    assert read.outline(trace)[3:] == [
        "3 a tool_call add <- causal 2",
        "4 a tool_call add <- causal 2",
        "5 a tool_result add",
        "6 a tool_result add",
        "7 a message broadcast <- causal 2, tool_dependency 5, tool_dependency 6",
        "8 a return RoundRobinGroupChat <- causal 7",
        "9 RoundRobinGroupChat stop <- causal 8",
    ]
    assert [e.get("tokens") for e in trace.events if e.verb in {"tool_call", "message"}] == [
        16,
        None,
        10,
    ]


class Forwarding(Remote):
    """A workbench that runs a tool of the same name, and keeps the call's id to itself."""

    def __init__(self) -> None:
        self.tool = FunctionTool(add, description="add")

    async def list_tools(self):
        return [self.tool.schema]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        answer = await self.tool.run_json(arguments, cancellation_token)
        return ToolResult(name=name, result=[TextResultContent(content=str(answer))])


def test_workbench_that_keeps_the_calls_id_adds_no_second_call(traced, script) -> None:
    """What a workbench runs under the call's name is the call, with or without its id."""
    calls = script.calls(("1", "add", '{"a": 1, "b": 2}'), ("2", "add", '{"a": 3, "b": 4}'))
    asyncio.run(_alone(script.agent("a", calls, workbench=Forwarding())).run(task="go"))
    assert [e["tool_call_id"] for e in traced.trace.events if e.verb == "tool_call"] == ["1", "2"]


def test_workbench_used_without_an_assistant_is_one_call(traced, plain, read) -> None:
    """An agent of the host's own that calls a workbench, with and without a call id."""
    bench = StaticStreamWorkbench([FunctionTool(add, description="add")])

    async def use() -> str:
        first = await bench.call_tool("add", {"a": 1, "b": 2})
        async for _ in bench.call_tool_stream("add", {"a": 1, "b": 2}, call_id="c2"):
            pass
        return first.to_text()

    asyncio.run(_alone(plain("a", lambda _: use())).run(task="go"))
    assert read.outline(traced.trace)[3:8] == [
        "3 a tool_call add <- causal 2",
        "4 a tool_result add",
        "5 a tool_call add <- causal 2, tool_dependency 4",
        "6 a tool_result add",
        "7 a message broadcast <- causal 2, tool_dependency 6",
    ]


class Row(dict):
    """Arguments that, as a row of a table, are neither true nor false."""

    def __bool__(self) -> bool:
        msg = "ambiguous"
        raise ValueError(msg)


def test_arguments_of_a_workbench_are_not_asked_for_their_truth(traced) -> None:
    """Nobody but the tool knows what they are."""

    @orchtrace.agent("caller")
    async def caller() -> str:
        result = await Remote().call_tool("far", arguments=Row(a=1))
        return result.to_text()

    assert asyncio.run(caller()) == CANARY
    assert [e["tool"] for e in traced.trace.events if e.verb == "tool_call"] == ["far"]


def test_tool_that_runs_another_tool_is_two_calls(traced, plain) -> None:
    """Without ids, only the same call one entry further in is the same call."""
    from autogen_core import CancellationToken

    inner = FunctionTool(add, description="add")

    async def twice(a: int) -> int:
        return await inner.run_json({"a": a, "b": a}, CancellationToken())

    outer = FunctionTool(twice, description="twice")

    async def use() -> str:
        return str(await outer.run_json({"a": 2}, CancellationToken()))

    asyncio.run(_alone(plain("a", lambda _: use())).run(task="go"))
    calls = [e["tool"] for e in traced.trace.events if e.verb == "tool_call"]
    assert calls == ["twice", "add"]


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_of_a_decorated_function_is_one_call(traced, script, is_async) -> None:
    """As replays need it: marked safe. What it calls under its name is a call of its own."""

    def plainly(depth: int) -> int:
        """Call itself once."""
        return count(depth - 1) if depth else 0

    async def count_later(depth: int) -> int:
        """Call itself once."""
        return await count(depth - 1) if depth else 0

    count = orchtrace.tool("count", replay_safe=True)(count_later if is_async else plainly)
    tool = FunctionTool(count, description="Counts.", name="count")
    calls = (("1", "count", '{"depth": 1}'), ("2", "count", '{"depth": 0}'))
    asyncio.run(script.agent("a", script.calls(*calls), tools=[tool]).run(task="go"))
    called = [e.get("status") for e in traced.trace.events if e.verb == "tool_result"]
    assert called == ["ok", "ok", "ok"]


def test_memory_is_queried_before_the_turn(traced, script, read) -> None:
    """What a memory gave enters what the agent says next."""
    memory = ListMemory(memory_contents=[MemoryContent(content=CANARY, mime_type="text/plain")])
    agent = script.agent("a", "one", memory=[memory])
    asyncio.run(_alone(agent).run(task="go"))
    assert read.outline(traced.trace)[3:6] == [
        "3 a tool_call memory.query <- causal 2",
        "4 a tool_result memory.query",
        "5 a message broadcast <- causal 2, tool_dependency 4",
    ]
    (query,) = [span for span in traced.spans if span.name == "execute_tool memory.query"]
    assert query.attributes["gen_ai.tool.type"] == "datastore"
    assert CANARY not in traced.trace.to_json()


def test_memory_made_of_another_is_one_query(traced, script, plain) -> None:
    """A memory that asks itself, or its base class, is asked once; adding is a call of its own."""

    class Searching(ListMemory):
        async def update_context(self, model_context):
            await self.query("what")
            return await super().update_context(model_context)

    memory = Searching()

    async def learn() -> str:
        await memory.add(MemoryContent(content=CANARY, mime_type="text/plain"))
        return "learned"

    agents = [plain("p", lambda _: learn()), script.agent("a", "one", memory=[memory])]
    asyncio.run(RoundRobinGroupChat(agents, max_turns=2).run(task="go"))
    calls = [(e.agent, e["tool"]) for e in traced.trace.events if e.verb == "tool_call"]
    assert calls == [("p", "memory.add"), ("a", "memory.query")]


@pytest.mark.filterwarnings("ignore:No approval function")
@pytest.mark.parametrize(("exit_code", "status"), [(0, "ok"), (1, "error")])
def test_executed_code_is_a_call(traced, plain, read, exit_code, status) -> None:
    """Code that ended with an exit code is a call that failed; the agent goes on."""
    coder = plain("coder", lambda _: f"```python\nprint('{CANARY}')\n```")
    runner = CodeExecutorAgent("runner", Scripted(exit_code))
    asyncio.run(RoundRobinGroupChat([coder, runner], max_turns=2).run(task="go"))
    lines = read.outline(traced.trace)
    failed = "" if status == "ok" else " (error)"
    assert lines[5:10] == [
        "5 RoundRobinGroupChat decide runner <- causal 4",
        "6 RoundRobinGroupChat spawn runner <- message 0, message 3, spawn 5",
        "7 runner tool_call execute_code <- causal 6",
        f"8 runner tool_result execute_code{failed}",
        "9 runner message broadcast <- causal 6, tool_dependency 8",
    ]
    assert CANARY not in traced.trace.to_json()


def test_code_that_a_tool_executes_is_the_tools_call(traced, script) -> None:
    """How a tool does its work is no call of the agent's."""
    tool = PythonCodeExecutionTool(Scripted())
    agent = script.agent("a", script.calls(("1", "CodeExecutor", '{"code": "1"}')), tools=[tool])
    asyncio.run(_alone(agent).run(task="go"))
    assert [e["tool"] for e in traced.trace.events if e.verb == "tool_call"] == ["CodeExecutor"]


def test_results_are_equal_with_and_without_us(script, plain) -> None:
    """What tools, memories and code give back is the host's own."""

    async def all_of_it() -> list[tuple[str, str]]:
        memory = ListMemory(memory_contents=[MemoryContent(content="m", mime_type="text/plain")])
        calls = script.calls(("1", "far", "{}"), ("2", "broken", "{}"))
        agent = script.agent("a", calls, workbench=Remote(), memory=[memory])
        result = await _alone(agent).run(task="go")
        code = await Scripted(3).execute_code_blocks([], None)
        said = [(type(m).__name__, m.to_text()) for m in result.messages]
        return [*said, ("code", f"{code.exit_code} {code.output}")]

    without = asyncio.run(all_of_it())
    with capture(), orchtrace.instrument("autogen"):
        assert asyncio.run(all_of_it()) == without


def test_uninstrument_gives_every_kind_its_methods_back() -> None:
    """Workbenches, memories and executors have the very functions again, and no hook is left."""
    before = [dict(vars(kind)) for kind in (Remote, ListMemory, Scripted, Workbench, CodeExecutor)]
    with orchtrace.instrument("autogen"):
        assert type(vars(Remote)["call_tool"]).__name__ == "FunctionWrapper"
        assert type(vars(ListMemory)["query"]).__name__ == "FunctionWrapper"
    now = [dict(vars(kind)) for kind in (Remote, ListMemory, Scripted, Workbench, CodeExecutor)]
    for old, new in zip(before, now, strict=True):
        assert {k: v for k, v in old.items() if not k.startswith("_abc")} == {
            k: v for k, v in new.items() if not k.startswith("_abc")
        }


def test_agents_of_one_team_may_ask_one_memory(traced, plain, script) -> None:
    """Each asking is its agent's."""
    memory = ListMemory()
    agents = [script.agent(name, name, memory=[memory]) for name in ("a", "b")]
    asyncio.run(RoundRobinGroupChat(agents, max_turns=2).run(task="go"))
    asked = [e.agent for e in traced.trace.events if e.verb == "tool_call"]
    assert asked == ["a", "b"]


def test_methods_that_are_no_coroutines_are_left_alone(traced, plain) -> None:
    """A class of the host's that does it its own way gets what it gave."""

    class Plain(ListMemory):
        def query(self, query="", cancellation_token=None, **kwargs):
            return ["found"]

    class Bench(Remote):
        def call_tool_stream(self, name, **kwargs):
            return iter([name])

    async def use() -> str:
        return f"{Plain().query('x')} {list(Bench().call_tool_stream('far'))}"

    result = asyncio.run(_alone(plain("a", lambda _: use())).run(task="go"))
    assert result.messages[-1].to_text() == "['found'] ['far']"
    assert traced.trace.costs["tool_calls"] == 0
