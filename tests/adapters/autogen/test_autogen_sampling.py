"""What a tool's MCP server asks a model for: a turn of the tool call that it serves."""

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.tools import TextResultContent, ToolResult, Workbench

from orchtrace_autogen._sampling import MODULE
from orchtrace_otel import Trace


class McpSessionActor:
    """Talks with a server in a task of its own, as AutoGen's class of this name does."""

    def __init__(self, client: Any, *, together: int) -> None:
        self.client = client
        self.together = together
        self.waiting: list[asyncio.Future[str]] = []
        self.commands: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.create_task(self._run())

    async def call(self, type: str, args: Any = None) -> Any:  # noqa: A002 - its name there
        answer: asyncio.Future[Any] = asyncio.Future()
        await self.commands.put((type, answer))
        return await answer

    async def _run(self) -> None:
        while True:
            _, answer = await self.commands.get()
            reply: asyncio.Future[str] = asyncio.Future()
            answer.set_result(self._reply(reply))
            self.waiting.append(reply)
            if len(self.waiting) == self.together:
                await asyncio.sleep(0.01)
                await self._sampling_callback(None, None)
                while self.waiting:
                    self.waiting.pop().set_result("done")

    async def _reply(self, reply: "asyncio.Future[str]") -> str:
        return await reply

    async def _sampling_callback(self, context: Any, params: Any) -> Any:
        return await self.client.create([])


class Bench(Workbench):
    """A workbench of tools that ask a model for something."""

    component_type = "workbench"

    def __init__(self, client: Any, together: int = 1) -> None:
        self.client = client
        self.together = together
        self.actor: Any = None

    async def list_tools(self):
        return [{"name": "ask", "description": "asks"}]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        await self.start()
        answer = await (await self.actor.call("call_tool", {"name": name}))
        return ToolResult(name=name, result=[TextResultContent(content=answer)])

    async def start(self) -> None:
        if self.actor is None:
            self.actor = McpSessionActor(self.client, together=self.together)

    async def stop(self) -> None:
        self.actor.task.cancel()

    async def reset(self) -> None:
        """There is nothing to reset."""

    async def save_state(self):
        return {}

    async def load_state(self, state) -> None:
        """There is no state."""


@pytest.fixture
def loaded(monkeypatch) -> Iterator[None]:
    """AutoGen's module of MCP is loaded, whatever is installed; it is left as it was."""
    originals = dict(vars(McpSessionActor))
    module: Any = ModuleType(MODULE)
    module.McpSessionActor = McpSessionActor
    monkeypatch.setitem(sys.modules, MODULE, module)
    yield
    assert dict(vars(McpSessionActor)) == originals


def _turns(trace: Trace) -> list[tuple[str, int | None]]:
    """Return whose each turn is, and the tokens of its prompt."""
    return sorted((turn.agent, turn.input_tokens) for turn in trace.turns)


def _team(script, bench: Workbench, name: str) -> RoundRobinGroupChat:
    agent = script.agent(name, script.calls(("1", "ask", "{}")), workbench=bench)
    return RoundRobinGroupChat([agent], max_turns=1)


@pytest.mark.parametrize("starts", ["before", "with the first call"])
def test_a_servers_question_is_a_turn_of_the_call_it_works_on(
    loaded, traced, script, starts
) -> None:
    """In whatever run the workbench was started: each run has its own call's turn."""

    async def twice() -> None:
        asked = Bench(script.client(script.says("x", 100, 1), script.says("y", 200, 2)))
        if starts == "before":
            await asked.start()
        await _team(script, asked, "a").run(task="go")
        await _team(script, asked, "b").run(task="go")
        await asked.stop()

    asyncio.run(twice())
    assert [_turns(trace) for trace in traced.traces] == [
        [("a", 11), ("a", 100)],
        [("b", 11), ("b", 200)],
    ]
    assert [trace.costs["tool_calls"] for trace in traced.traces] == [1, 1]


def test_of_calls_of_one_agent_it_is_the_latest(loaded, traced, script) -> None:
    """A server does not say for which of its calls it asks; the agent is known all the same."""

    async def both() -> None:
        asked = Bench(script.client(script.says("x", 100, 1)), together=2)
        await asked.start()
        calls = script.calls(("1", "ask", "{}"), ("2", "ask", "{}"))
        agent = script.agent("a", calls, workbench=asked)
        await RoundRobinGroupChat([agent], max_turns=1).run(task="go")
        await asked.stop()

    asyncio.run(both())
    assert _turns(traced.trace) == [("a", 11), ("a", 100)]


def test_of_calls_of_several_agents_it_is_nobodys(loaded, traced, script) -> None:
    """Rather than another agent's: whose call it was is not known."""

    async def both() -> None:
        asked = Bench(script.client(script.says("x", 100, 1)), together=2)
        await asked.start()
        runs = [_team(script, asked, name).run(task="go") for name in "ab"]
        await asyncio.wait_for(asyncio.gather(*runs), 10)
        await asked.stop()

    asyncio.run(both())
    assert sorted(map(_turns, traced.traces)) == [[("a", 11)], [("b", 11)]]


def test_outside_of_runs_a_server_asks_as_it_did(loaded, traced, script) -> None:
    """Nothing begins, and the tool gives what it gave."""

    async def alone() -> Any:
        asked = Bench(script.client("x"))
        found = await asked.call_tool("ask", {}, CancellationToken(), "1")
        await asked.stop()
        return found.result[0].content

    assert asyncio.run(alone()) == "done"
    assert traced.traces == []
