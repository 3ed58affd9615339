"""Agents and teams of every kind that note their own turns."""

from collections.abc import Callable
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, SocietyOfMindAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import (
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_core import CancellationToken

from tests.adapters.autogen.noted_turns import CalledFloor, Floor, Nobody


class Actor(BaseChatAgent):
    """An agent without a model that takes its time, and may hand over."""

    def __init__(self, name: str, floor: Floor, act: Callable[[], Any]) -> None:
        super().__init__(name, f"agent {name}")
        self.floor = floor
        self.act = act

    @property
    def produced_message_types(self):
        return (TextMessage, HandoffMessage)

    async def on_messages(self, messages, cancellation_token: CancellationToken) -> Response:
        turn = self.floor.ask(self.name, messages)
        said = await self.act()
        if isinstance(said, str):
            said = TextMessage(content=said, source=self.name)
        self.floor.answer(turn, said.content, said.id)
        return Response(chat_message=said)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing is kept."""


def _noting(kind: type[Any]) -> type[Any]:
    """Return a kind of AutoGen's agents that notes its turns."""

    class Noting(kind):
        floor: Floor

        async def on_messages_stream(self, messages, cancellation_token):
            turn = self.floor.ask(self.name, messages)
            said = None
            async for item in super().on_messages_stream(messages, cancellation_token):
                if isinstance(item, Response):
                    said = item.chat_message
                yield item
            text = getattr(said, "content", None)
            self.floor.answer(turn, text if isinstance(text, str) else "", said.id)

    return Noting


Assistant = _noting(AssistantAgent)
Society = _noting(SocietyOfMindAgent)


class Noted:
    """Mixed into a team that is called by an agent or takes part in a team."""

    around: Floor
    own: Floor
    label: str

    async def run_stream(self, **kwargs: Any):
        turn = self.around.record.begin(self.label)
        self.around.record.triggers[turn] = self.around.causes(turn)
        self.own.restart()
        if not isinstance(self.around, CalledFloor | Nobody):
            # What an agent hands to a team of its own is a task, not a message.
            self.around.record.read(turn, kwargs["task"])
        async for item in super().run_stream(**kwargs):
            yield item
        self.around.answer(turn, "")

    async def reset(self) -> None:
        await super().reset()
        self.own.forget()


class NotedRoundRobin(Noted, RoundRobinGroupChat):
    """A round-robin team that notes its turns."""


class NotedSelector(Noted, SelectorGroupChat):
    """A selector's team that notes its turns."""


class NotedSwarm(Noted, Swarm):
    """A swarm that notes its turns."""


class NotedFlow(Noted, GraphFlow):
    """A flow that notes its turns."""


class NotedMagentic(Noted, MagenticOneGroupChat):
    """Magentic-One's team that notes its turns."""
