"""What was each message of a team worth? Rebuild it up to there, and go on without it.

Two scouts find out something useful, a third one talks about the weather; a writer joins
what it reads, and the answer is right where it names the lake and its depth. Content is
captured: out of it the history of a fresh team is made, so who spoke before the
change is not asked again. All models are scripted.
Run it, then: orchtrace show orchtrace-data
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import CreateResult, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import describe

WORDS = {
    "geographer": "It is Lake Garda.",
    "diver": "It is 346 m deep.",
    "gossip": "It rained all day.",
}


class Scripted(ReplayChatCompletionClient):
    """A model that answers by a function of what it reads, so that a fresh one does the same."""

    def __init__(self, answers: Callable[[Sequence[Any]], str]) -> None:
        super().__init__([])
        self._answers = answers

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        """Answer at once."""
        usage = RequestUsage(prompt_tokens=len(messages), completion_tokens=1)
        text = self._answers(messages)
        return CreateResult(finish_reason="stop", content=text, usage=usage, cached=False)


def says(text: str) -> Callable[[Sequence[Any]], str]:
    """Return what always says the same."""
    return lambda _: text


def joins(messages: Sequence[Any]) -> str:
    """Join what others said."""
    return " ".join(str(one.content) for one in messages if isinstance(one, UserMessage))


def build_team() -> RoundRobinGroupChat:
    """Return a fresh team; the replays call it, once each."""
    scouts = [
        AssistantAgent(name, model_client=Scripted(says(text))) for name, text in WORDS.items()
    ]
    writer = AssistantAgent("writer", model_client=Scripted(joins))
    return RoundRobinGroupChat([*scouts, writer], max_turns=4)


def is_right(result: TaskResult) -> float:
    """Half for the lake, half for its depth."""
    answer = str(getattr(result.messages[-1], "content", ""))
    return ("Garda" in answer) / 2 + ("346" in answer) / 2


class _Keeper:
    """An exporter that keeps traces in memory."""

    def __init__(self) -> None:
        self.traces: list[orchtrace.Trace] = []

    def export(self, trace: orchtrace.Trace) -> None:
        """Keep a trace."""
        self.traces.append(trace)

    def amend(self, run_id: str, reward: orchtrace.Reward) -> None:
        """No reward comes late here."""

    def flush(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    def shutdown(self) -> None:
        """There is nothing to close."""


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl, then ask what its messages were worth."""
    keeper = _Keeper()
    orchtrace.configure(
        exporters=["jsonl:orchtrace-data/", keeper],
        content={"mode": "EVENT_ONLY", "store": "orchtrace-data/content/"},
    )
    with orchtrace.instrument("autogen"):
        asyncio.run(build_team().run(task="Which lake is it, and how deep?"))
    orchtrace.flush()
    found = orchtrace.counterfactual(
        keeper.traces[0],
        build_team,
        score=is_right,
        replays=4,
    )
    for effect in found.ranked():
        value, reward = effect.value or 0.0, effect.r_msg or 0.0
        print(f"{describe(effect.player)}: {value:+.2f}, less its delay {reward:+.2f}")
    print(f"{found.replays} replays, {sum(found.lost.values())} lost")
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
