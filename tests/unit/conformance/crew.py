"""A tiny framework: crews of agents who work in stages, with tools and a model."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from orchtrace_otel.testing.conformance import TOKENS

Answer = tuple[str, tuple[int, int]]  # what a model says, and the tokens read and written


class Agent:
    """Does something with a text, at once or under asyncio."""

    def __init__(self, name: str, act: Callable[[str], Any]) -> None:
        self.name = name
        self.act = act

    def work(self, text: str) -> str:
        said: str = self.act(text)
        return said

    async def awork(self, text: str) -> str:
        said = self.act(text)
        told: str = await said if inspect.isawaitable(said) else said
        return told


class Tool:
    def __init__(self, name: str, body: Callable[[str], str]) -> None:
        self.name = name
        self.body = body

    def call(self, text: str) -> str:
        return self.body(text)


class Model:
    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def ask(self, text: str) -> Answer:
        self.look()
        return f"{text} answered", TOKENS


class Crew:
    """Agents in stages: those of a stage work side by side on what the stage before said."""

    def __init__(self, *stages: tuple[Agent, ...]) -> None:
        self.stages = stages

    def play(self, text: str) -> Iterator[str]:
        for stage in self.stages:
            said = [agent.work(text) for agent in stage]
            yield from said
            text = " ".join(said)

    async def aplay(self, text: str) -> AsyncIterator[str]:
        for stage in self.stages:
            said = [await agent.awork(text) for agent in stage]
            for one in said:
                yield one
            text = " ".join(said)

    def run(self, text: str) -> list[str]:
        return list(self.play(text))

    async def arun(self, text: str) -> list[str]:
        return [said async for said in self.aplay(text)]


SEAMS = [
    (Crew, "play"),
    (Crew, "aplay"),
    (Agent, "work"),
    (Agent, "awork"),
    (Tool, "call"),
    (Model, "ask"),
]
