"""The adapter of the tiny framework, done right."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, ClassVar

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Adapter, Patches
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.model import Trace
from orchtrace_otel.replay import Change, Part, Replayer, Score
from orchtrace_otel.spans import Activation, Interval, Scope
from tests.unit.conformance.crew import Agent, Answer, Crew, Model, Tool

Token = contextvars.Token[Context]

PLAYING = otel_context.create_key("playing")


class CrewReplayer:
    """Runs a crew again: agents that are out say nothing, those before them what they said."""

    def __init__(self, target: tuple[Crew, list[str]], score: Score) -> None:
        self.crew, self.said = target
        self.score = score

    def value(self, change: Change, seed: int) -> float:
        out = {part.name for part in change.touched if isinstance(part, Part)}
        text, is_before = "", True
        told: list[str] = []
        for (agent,), before in zip(self.crew.stages, self.said, strict=True):
            if agent.name in out:
                is_before = False
                text = before if Part("agent", agent.name) in change.anew else ""
            else:
                text = before if is_before else self.work(agent, text)
            told.append(text)
        return self.score(told)

    def work(self, agent: Agent, text: str) -> str:
        return agent.work(text)


class Playing:
    """A crew that plays: its activation, and what caused the stage that works now."""

    def __init__(self, activation: Activation, run: spans.Run | None, crew: Crew) -> None:
        self.activation = activation
        self.run = run
        self.crew = crew
        self.stage = 0
        self.causes: list[Edge] = [("spawn", activation.opened)]
        self.ended: list[Mark] = []


Opened = tuple[Playing, Activation]  # an agent at work: in which crew, and its activation


class CrewAdapter(Adapter):
    """Traces crews, their agents, tools and models; the broken ones override a part of it."""

    name = "crew"
    extra = "langgraph"
    module = __name__
    requires: ClassVar[Mapping[str, str]] = {"langgraph": ">=0.6,<2"}

    def __init__(self) -> None:
        self.patches = Patches()

    def instrument(self) -> None:
        self.patches.wrap(Crew, "play", self.play)
        self.patches.wrap(Crew, "aplay", self.aplay)
        self.patches.wrap(Agent, "work", self.work)
        self.patches.wrap(Agent, "awork", self.awork)
        self.patches.wrap(Tool, "call", self.call)
        self.patches.wrap(Model, "ask", self.ask)

    def uninstrument(self) -> None:
        self.patches.undo()
        self.patches = Patches()

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        return CrewReplayer(target, score)

    # crews

    def play(
        self, wrapped: Callable[..., Iterator[str]], crew: Crew, args: Any, kwargs: Any
    ) -> Iterator[str]:
        playing = self.open_crew(crew)
        inner = wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            while True:
                token = self.attach(playing)
                try:
                    said = next(inner)
                except StopIteration:
                    return
                finally:
                    self.detach(token)
                yield self.hand_on(said)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.close_crew(playing, error)

    async def aplay(
        self, wrapped: Callable[..., AsyncIterator[str]], crew: Crew, args: Any, kwargs: Any
    ) -> AsyncIterator[str]:
        playing = self.open_crew(crew)
        inner = wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            while True:
                token = self.attach(playing)
                try:
                    said = await anext(inner)
                except StopAsyncIteration:
                    return
                finally:
                    self.detach(token)
                yield self.hand_on(said)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.close_crew(playing, error)

    def hand_on(self, said: str) -> str:
        return said

    @guarded
    def open_crew(self, crew: Crew) -> Playing | None:
        outer = self.current()
        if outer is not None:
            edges = [("spawn", outer.opened)]
            return Playing(spans.open_activation(outer, "crew", edges=edges), None, crew)
        run = spans.start_run("crew", system="crew")
        return Playing(run.root, run, crew) if run is not None and run.is_recording else None

    def current(self) -> Activation | None:
        return spans.current()

    @guarded
    def attach(self, playing: Playing | None) -> Token | None:
        if playing is None:
            return None
        context = otel_context.set_value(PLAYING, playing, playing.activation.context)
        return otel_context.attach(context)

    @guarded
    def detach(self, token: Token | None) -> None:
        if token is not None:
            otel_context.detach(token)

    @guarded
    def close_crew(self, playing: Playing | None, error: BaseException | None) -> None:
        if playing is None:
            return
        status, reason = self.outcome(error)
        failure = error if status == "error" else None
        edges = [("causal", mark) for mark in playing.ended]
        if playing.run is None:
            playing.activation.close(status=status, error=failure, edges=edges)
        else:
            playing.run.close(stop_reason=reason, status=status, error=failure, edges=edges)

    def outcome(self, error: BaseException | None) -> tuple[str, str]:
        return spans.outcome(error)

    # agents

    def work(self, wrapped: Callable[..., str], agent: Agent, args: Any, kwargs: Any) -> str:
        opened = self.open_agent(agent)
        token = self.enter(opened)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            self.detach(token)
            self.close_agent(opened, error)
            raise
        self.detach(token)
        self.close_agent(opened, None)
        return result

    async def awork(
        self, wrapped: Callable[..., Awaitable[str]], agent: Agent, args: Any, kwargs: Any
    ) -> str:
        opened = self.open_agent(agent)
        token = self.enter(opened)
        try:
            result = await wrapped(*args, **kwargs)
        except BaseException as error:
            self.detach(token)
            self.close_agent(opened, error)
            raise
        self.detach(token)
        self.close_agent(opened, None)
        return result

    @guarded
    def open_agent(self, agent: Agent) -> Opened | None:
        playing = otel_context.get_value(PLAYING)
        if not isinstance(playing, Playing):
            return None
        stage = next(n for n, agents in enumerate(playing.crew.stages) if agent in agents)
        if stage != playing.stage:
            playing.stage = stage
            playing.causes = self.causes(playing.activation, playing.ended)
            playing.ended = []
        activation = spans.open_activation(
            self.parent(playing), agent.name, edges=playing.causes, attributes=self.facts()
        )
        return playing, activation

    def parent(self, playing: Playing) -> Activation:
        return playing.activation

    def facts(self) -> dict[str, Any]:
        return {}

    def causes(self, team: Activation, ended: list[Mark]) -> list[Edge]:
        if len(ended) == 1:
            return [("causal", ended[0])]
        merged = spans.instant(team, "aggregate", edges=[("aggregate", mark) for mark in ended])
        return [("causal", merged)]

    @guarded
    def enter(self, opened: Opened | None) -> Token | None:
        return None if opened is None else otel_context.attach(opened[1].context)

    @guarded
    def close_agent(self, opened: Opened | None, error: BaseException | None) -> None:
        if opened is None:
            return
        playing, activation = opened
        status, _ = self.outcome(error)
        activation.close(status=status, error=error if status == "error" else None)
        playing.ended.append(activation.closed)

    # tools and models

    def call(self, wrapped: Callable[..., str], tool: Tool, args: Any, kwargs: Any) -> str:
        scope = self.open_tool(tool)
        token = self.enter_tool(scope)
        error: BaseException | None = None
        try:
            return wrapped(*args, **kwargs)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.detach(token)
            self.close_tool(scope, error)

    @guarded
    def open_tool(self, tool: Tool) -> Scope | None:
        current = spans.current()
        if current is None:
            return None
        return spans.open_tool(current, tool.name, edges=[("causal", current.opened)])

    @guarded
    def enter_tool(self, scope: Scope | None) -> Token | None:
        return None if scope is None else otel_context.attach(scope.context)

    @guarded
    def close_tool(self, scope: Scope | None, error: BaseException | None) -> None:
        if scope is not None:
            status, _ = spans.outcome(error)
            scope.close(status=status, error=error)
            scope.activation.flow.returned(scope.closed, "tool_dependency")

    def ask(self, wrapped: Callable[..., Answer], model: Model, args: Any, kwargs: Any) -> Answer:
        turn = self.open_turn()
        result = wrapped(*args, **kwargs)
        self.close_turn(turn, result)
        return result

    @guarded
    def open_turn(self) -> Interval | None:
        current = spans.current()
        return None if current is None else spans.open_turn(current, "scripted")

    @guarded
    def close_turn(self, turn: Interval | None, result: Answer) -> None:
        if turn is not None:
            read, written = result[1]
            turn.close(attributes={a.INPUT_TOKENS: read, a.OUTPUT_TOKENS: written})
