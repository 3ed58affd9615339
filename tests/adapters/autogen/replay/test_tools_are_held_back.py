"""Tools are played back or block the replay, unless they are marked as safe."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import ToolCallSummaryMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResultMessage, UserMessage
from autogen_core.tools import TextResultContent, ToolResult, Workbench

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_otel.content import Capture, use
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.replay import Part, Slot, record
from tests.adapters.autogen.replay.teams import priced, ran


def test_tools_are_played_back_or_block_the_replay(traced, cast) -> None:
    """The same arguments give what they gave; others are blocked, though the agent catches it."""
    asked: list[str] = []
    build = priced(cast, asked)
    with record() as recording:
        trace, result = ran(traced, build)
    assert (len(recording), asked) == (1, ["pie"])
    target = Recorded(team=build, messages=result)
    letter = Slot("guest", "broadcast", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda _: 1.0, replays=4, recording=recording
    )
    assert found.lost == {"blocked": 2}  # without the letter the shopper looks up "go"
    nothing = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert nothing.lost == {"blocked": 4}
    assert asked == ["pie"]


def test_tools_that_are_safe_are_called_again(traced, cast) -> None:
    """The mark is that of the function's decorator."""
    asked: list[str] = []
    build = priced(cast, asked, safe=True)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    letter = Slot("guest", "broadcast", 1)
    found = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=2)
    assert found.lost == {}
    assert sorted(asked) == ["go", "pie", "pie"]


def test_an_assistant_remembers_the_tools_of_turns_that_are_as_they_were(traced, cast) -> None:
    """Its context is what it was, call and result included, and no tool is called for it."""
    asked: list[str] = []
    read: list[list[str]] = []

    def shops(messages: Sequence[Any]) -> Any:
        read.append([type(one).__name__ for one in messages])
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return "three"
        if any(isinstance(one, FunctionExecutionResultMessage) for one in messages):
            return "done"
        return [FunctionCall(id="7", name="look_up", arguments='{"what": "pie"}')]

    def look_up(what: str) -> str:
        """Look up what it costs."""
        asked.append(what)
        return f"{what}: 3"

    def build() -> RoundRobinGroupChat:
        shopper = cast.agent("shopper", shops, tools=[look_up], reflect_on_tool_use=True)
        return RoundRobinGroupChat(
            [shopper, cast.agent("guest", "thanks")], termination_condition=MaxMessageTermination(4)
        )

    trace, result = ran(traced, build)
    last = read[-1]
    read.clear()
    guest = Slot("guest", "broadcast", 1)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, [guest], score=lambda _: 1.0, replays=2, workers=1
    )
    assert found.lost == {}
    assert read == [last, [*last[:-1]]]
    assert asked == ["pie"]


class Shop(Workbench):
    """A workbench that is none of AutoGen's own."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    async def list_tools(self) -> list[Any]:
        return []

    async def call_tool(self, name: str, arguments: Any = None, *_: Any, **__: Any) -> ToolResult:
        self.asked.append(arguments["what"])
        return ToolResult(name=name, result=[TextResultContent(content=f"{arguments['what']}: 3")])

    async def start(self) -> None:
        """There is nothing to start."""

    async def stop(self) -> None:
        """There is nothing to stop."""

    async def reset(self) -> None:
        """There is nothing to reset."""

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """There is nothing to load."""


def test_tools_of_any_workbench_are_held_back(traced, cast) -> None:
    """Those of a server, for example, whose workbench the factory hands to every team."""
    shop = Shop([])

    async def list_tools() -> list[Any]:
        return [{"name": "look_up", "parameters": {"type": "object", "properties": {}}}]

    shop.list_tools = list_tools

    def shops(messages: Sequence[Any]) -> Any:
        wanted = [str(m.content) for m in messages if isinstance(m, UserMessage)][-1]
        call = json.dumps({"what": wanted})
        return [FunctionCall(id="7", name="look_up", arguments=call)]

    def build() -> RoundRobinGroupChat:
        shopper = cast.agent("shopper", shops, workbench=shop)
        return RoundRobinGroupChat([cast.agent("guest", "pie"), shopper], max_turns=2)

    with record() as recording:
        trace, result = ran(traced, build)
    assert (len(recording), shop.asked) == (1, ["pie"])
    found = orchtrace.counterfactual(
        trace,
        Recorded(team=build, messages=result),
        [Slot("guest", "broadcast", 1)],
        score=lambda r: float("pie: 3" in str(r.messages[-1].content)),
        replays=4,
        recording=recording,
    )
    assert found.lost == {"blocked": 2}
    assert shop.asked == ["pie"]


@pytest.mark.parametrize("is_captured", [False, True])
def test_a_tool_that_was_asked_before_the_change_goes_on_from_there(
    traced, cast, tmp_path, is_captured
) -> None:
    """Who polls later gets what came later, as in the run."""
    store = str(tmp_path / "content")
    recorder = set_up(Capture(mode="EVENT_ONLY", store=store), None) if is_captured else None
    answers = iter(["waits", "is ready", "is gone"])

    def poll() -> str:
        """Say how it is going."""
        return next(answers)

    def polls(_: Sequence[Any]) -> Any:
        return [FunctionCall(id="7", name="poll", arguments="{}")]

    def build() -> RoundRobinGroupChat:
        names = ("first", "second", "third")
        team = [cast.agent(name, polls, tools=[poll]) for name in names]
        return RoundRobinGroupChat(team, max_turns=3)

    try:
        with record() as recording:
            trace, result = ran(traced, build)
    finally:
        if recorder is not None:
            recorder.shutdown(5.0)
            use(None)
    found: list[list[str]] = []

    def score(result: Any) -> float:
        said = (m for m in result.messages if isinstance(m, ToolCallSummaryMessage))
        found.append([one.content for one in said])
        return 1.0

    given: Any = {"store": store} if is_captured else {"messages": result}
    effects = orchtrace.counterfactual(
        trace,
        Recorded(team=build, **given),
        [Slot("first", "broadcast", 1), Part("dependency", "third<-first")],
        score=score,
        replays=2,
        recording=recording,
        workers=1,
    )
    assert effects.lost == {}
    whole = ["waits", "is ready", "is gone"]
    assert [one[1:] for one in found] == [whole[1:]] * 4
