"""The adapter conformance kit, on AutoGen's teams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import autogen_agentchat
import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from orchtrace_autogen import AutoGenAdapter, Recorded
from orchtrace_autogen._telemetry import silence
from orchtrace_otel.adapter import Patches
from orchtrace_otel.testing.conformance import CANARY, TOKENS, AdapterConformance, Replayed

MODEL = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": ModelFamily.UNKNOWN,
}


class Actor(BaseChatAgent):
    """An agent that does one thing and says something about it."""

    def __init__(self, name: str, act: Callable[[], Any] | None = None) -> None:
        super().__init__(name, f"{name} {CANARY}")
        self._act = act

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages, cancellation_token) -> Response:
        done = None if self._act is None else self._act()
        if asyncio.iscoroutine(done):
            waiting = asyncio.ensure_future(done)
            cancellation_token.link_future(waiting)
            await waiting
        return Response(chat_message=TextMessage(content=CANARY, source=self.name))

    async def on_reset(self, cancellation_token) -> None:
        """Nothing is kept."""


class Model(ReplayChatCompletionClient):
    """A scripted model that tells when it is called."""

    look: Callable[[], None] = staticmethod(lambda: None)

    async def create(self, *args: Any, **kwargs: Any) -> CreateResult:
        self.look()
        return await super().create(*args, **kwargs)


def _model(*contents: str | list[FunctionCall]) -> Model:
    usage = RequestUsage(prompt_tokens=TOKENS[0], completion_tokens=TOKENS[1])
    results = [
        CreateResult(finish_reason="stop", content=content, usage=usage, cached=False)
        for content in contents
    ]
    return Model(results, model_info=MODEL)


def _team(*agents: Any, turns: int | None = None) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(list(agents), max_turns=turns or len(agents))


class TestAutoGen(AdapterConformance):
    """Round-robin teams and a flow, awaited and streamed."""

    can_ainvoke = True
    can_astream = True
    can_hand_off = True
    can_call_tools = True
    can_call_models = True
    can_fan_out = True
    can_nest = not autogen_agentchat.__version__.startswith("0.6")
    can_wait = True
    can_replay = True

    @pytest.fixture(autouse=True)
    def _quiet_host(self, caplog) -> Iterator[None]:
        """Switch off what AutoGen itself logs and traces: it comes back after us."""
        for name in ("autogen_core", "autogen_core.events"):
            caplog.set_level(logging.CRITICAL + 1, logger=name)
        patches = Patches()
        silence(patches)
        yield
        patches.undo()

    def make_adapter(self) -> AutoGenAdapter:
        return AutoGenAdapter()

    def single(self, look: Callable[[], None]) -> Any:
        return _team(Actor("worker", look))

    def failing(self, error: Exception) -> Any:
        def fail() -> None:
            raise error

        return _team(Actor("worker", fail))

    def handing_off(self) -> Any:
        return _team(Actor("first"), Actor("second"))

    def replayed(self, look: Callable[[str], None]) -> Replayed:
        def build() -> RoundRobinGroupChat:
            return _team(
                *(Actor(name, lambda name=name: look(name)) for name in ("first", "second"))
            )

        team = build()

        def kept() -> Any:
            return asyncio.run(team.save_state())

        return Replayed(
            run=lambda: asyncio.run(team.run(task=CANARY)),
            target=lambda result: Recorded(team=build, messages=result),
            kept=kept,
        )

    def calling_tool(self, look: Callable[[], None]) -> Any:
        async def lookup(what: str) -> str:
            look()
            return CANARY

        call = FunctionCall(id="call-1", name="lookup", arguments=f'{{"what": "{CANARY}"}}')
        tool = FunctionTool(lookup, description=CANARY)
        return _team(AssistantAgent("worker", model_client=_model([call]), tools=[tool]))

    def calling_model(self, look: Callable[[], None]) -> Any:
        model = _model(CANARY)
        model.look = look
        return _team(AssistantAgent("worker", model_client=model))

    def fanning_out(self) -> Any:
        left, right, merge = Actor("left"), Actor("right"), Actor("merge")
        graph = DiGraphBuilder()
        for agent in (left, right, merge):
            graph.add_node(agent)
        graph.add_edge(left, merge).add_edge(right, merge)
        return GraphFlow([left, right, merge], graph=graph.build())

    def nested(self, look: Callable[[], None]) -> Any:
        outer = RoundRobinGroupChat([Actor("inner", look)], name="outer", max_turns=1)
        return _team(outer)

    def waiting(self, wait: Callable[[], Awaitable[None]]) -> Any:
        return _team(Actor("worker", wait))

    async def ainvoke(self, team: Any) -> Any:
        token = CancellationToken()
        running = asyncio.ensure_future(team.run(task=CANARY, cancellation_token=token))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # AutoGen's way: a team whose caller is cancelled waits for its speakers.
            token.cancel()
            return await running

    def astream(self, team: Any) -> AsyncIterator[Any]:
        return team.run_stream(task=CANARY)

    def plain(self, result: Any) -> Any:
        if isinstance(result, TaskResult):
            return [self.plain(message) for message in result.messages], result.stop_reason
        unlike = {"id", "created_at"}
        return {key: value for key, value in result.dump().items() if key not in unlike}

    def seams(self) -> Iterator[tuple[Any, str]]:
        for kind in (ReplayChatCompletionClient,):
            yield kind, "create"
            yield kind, "create_stream"
        yield ChatCompletionClient, "__init_subclass__"
