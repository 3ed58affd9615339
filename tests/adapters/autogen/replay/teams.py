"""Teams that are replayed: agents whose models are functions, and how they are run."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_core.tools import FunctionTool

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Part, Slot

USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Model(ChatCompletionClient):
    """A model that answers by a function of what it is asked, and counts its calls."""

    def __init__(self, answers: Callable[[Sequence[Any]], Any], called: Callable[[], None]) -> None:
        self._answers = answers
        self._called = called

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        self._called()
        answer = self._answers(messages)
        reason = "stop" if isinstance(answer, str) else "function_calls"
        return CreateResult(finish_reason=reason, content=answer, usage=USAGE, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to close."""

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            structured_output=False,
            family="unknown",
        )


class Cast:
    """Makes agents whose models are counted."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def agent(self, name: str, answers: Any, **options: Any) -> AssistantAgent:
        """Return an assistant that says a text, or what a function makes of its messages."""
        function = answers if callable(answers) else lambda _: answers

        def called() -> None:
            self.count[name] += 1

        return AssistantAgent(
            name, model_client=Model(function, called), description=name, **options
        )

    def taken(self) -> dict[str, int]:
        """What was called since it was asked last."""
        taken = dict(self.count)
        self.count.clear()
        return taken


def joins(messages: Sequence[Any]) -> str:
    """What a writer makes of what it read."""
    return " ".join(str(m.content) for m in messages if isinstance(m, UserMessage))


def has_both(result: TaskResult) -> float:
    """The answer needs two of the three."""
    text = str(result.messages[-1].content)
    return float("red" in text and "blue" in text)


def ran(traced: Any, build: Callable[[], Any], task: str = "go") -> tuple[Any, TaskResult]:
    """Run a team once; return its trace and what it said."""
    result = asyncio.run(build().run(task=task))
    return traced.traces[-1], result


WORDS = {"ann": "red", "bob": "blue", "cid": "green"}
AGENTS = [Part("agent", name) for name in WORDS]
LETTERS = [Slot(name, "broadcast", 1) for name in WORDS]


def round_robin(cast: Cast) -> Callable[[], RoundRobinGroupChat]:
    """Three researchers one after the other, and a writer who joins what they said."""

    def build() -> RoundRobinGroupChat:
        team = [cast.agent(name, word) for name, word in WORDS.items()]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    return build


def selector(cast: Cast) -> Callable[[], SelectorGroupChat]:
    """The same, chosen by a model that goes down the list of who has not spoken yet."""

    def chooses(messages: Sequence[Any]) -> str:
        text = str(messages[-1].content)
        return next((name for name in WORDS if f"{name}:" not in text), "writer")

    def build() -> SelectorGroupChat:
        team = [cast.agent(name, word) for name, word in WORDS.items()]
        return SelectorGroupChat(
            [*team, cast.agent("writer", joins)],
            model_client=Model(chooses, lambda: cast.count.update(["selector"])),
            selector_prompt="{history}",
            termination_condition=MaxMessageTermination(5),
        )

    return build


def swarm(cast: Cast) -> Callable[[], Swarm]:
    """The same, each handing over to the next one, with its word before it."""
    order = [*WORDS, "writer"]

    def hands(name: str, word: str) -> Any:
        target = order[order.index(name) + 1]

        def answers(_: Sequence[Any]) -> list[FunctionCall]:
            return [FunctionCall(id=name, name=f"transfer_to_{target}", arguments="{}")]

        return cast.agent(name, answers, handoffs=[_handoff(target, word)], tools=[])

    def build() -> Swarm:
        team = [hands(name, word) for name, word in WORDS.items()]
        return Swarm(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    return build


def _handoff(target: str, word: str) -> Any:
    from autogen_agentchat.base import Handoff

    return Handoff(target=target, message=word)


def priced(cast: Cast, asked: list[str], **options: Any) -> Callable[[], RoundRobinGroupChat]:
    """A guest says what it wants, a shopper asks a shop for it and says what it costs."""

    def look_up(what: str) -> str:
        """Look up what it costs."""
        asked.append(what)
        return f"{what}: 3"

    function = orchtrace.tool(replay_safe=True)(look_up) if options.get("safe") else look_up

    def shops(messages: Sequence[Any]) -> Any:
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return messages[-1].content[0].content
        wanted = [str(m.content) for m in messages if isinstance(m, UserMessage)][-1]
        call = json.dumps({"what": wanted})
        return [FunctionCall(id="7", name="look_up", arguments=call)]

    def build() -> RoundRobinGroupChat:
        tool = FunctionTool(function, name="look_up", description="Look up what it costs.")
        shopper = cast.agent("shopper", shops, tools=[tool], reflect_on_tool_use=True)
        team = [cast.agent("guest", "pie"), shopper, cast.agent("writer", joins)]
        return RoundRobinGroupChat(team, termination_condition=MaxMessageTermination(4))

    return build


class Counting(BaseChatAgent):
    """An agent of its own, whose state is told by `save_state`, or is not."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)
        self.spoke = 0

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
        self.spoke += 1
        return Response(chat_message=TextMessage(content="hm", source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        self.spoke = 0
