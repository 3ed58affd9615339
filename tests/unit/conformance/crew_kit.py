"""The conformance kit, on crews."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from orchtrace_otel.adapter import Adapter
from orchtrace_otel.testing.conformance import CANARY, AdapterConformance, Replayed
from tests.unit.conformance.crew import Agent, Crew, Model, Tool
from tests.unit.conformance.crew_adapter import CrewAdapter

# A check, an adapter that fails it, and a part of what the check then says.
Broken = tuple[str, type[CrewAdapter], str]


def say(text: str) -> str:
    return f"{text}!"


class CrewConformance(AdapterConformance):
    can_invoke = True
    can_ainvoke = True
    can_stream = True
    can_astream = True
    can_hand_off = True
    can_call_tools = True
    can_call_models = True
    can_fan_out = True
    can_nest = True
    can_wait = True
    can_replay = True

    adapter: type[Adapter] = CrewAdapter

    def make_adapter(self) -> Adapter:
        return self.adapter()

    def single(self, look: Callable[[], None]) -> Crew:
        def act(text: str) -> str:
            look()
            return text

        return Crew((Agent("worker", act),))

    def failing(self, error: Exception) -> Crew:
        def act(text: str) -> str:
            raise error

        return Crew((Agent("worker", act),))

    def handing_off(self) -> Crew:
        return Crew((Agent("first", say),), (Agent("second", say),))

    def calling_tool(self, look: Callable[[], None]) -> Crew:
        def body(text: str) -> str:
            look()
            return text

        return Crew((Agent("worker", Tool("lookup", body).call),))

    def calling_model(self, look: Callable[[], None]) -> Crew:
        return Crew((Agent("worker", lambda text: Model(look).ask(text)[0]),))

    def fanning_out(self) -> Crew:
        return Crew((Agent("left", say), Agent("right", say)), (Agent("merge", say),))

    def nested(self, look: Callable[[], None]) -> Crew:
        def act(text: str) -> str:
            look()
            return text

        inner = Crew((Agent("inner", act),))
        return Crew((Agent("outer", lambda text: " ".join(inner.run(text))),))

    def waiting(self, wait: Callable[[], Awaitable[None]]) -> Crew:
        async def act(text: str) -> str:
            await wait()
            return text

        return Crew((Agent("worker", act),))

    def replayed(self, look: Callable[[str], None]) -> Replayed:
        def telling(name: str) -> Agent:
            def act(text: str) -> str:
                look(name)
                return f"{text} by {name}"

            return Agent(name, act)

        crew = Crew((telling("first"),), (telling("second"),))

        def target(said: list[str]) -> tuple[Crew, list[str]]:
            return crew, said

        return Replayed(
            run=lambda: crew.run(CANARY),
            target=target,
            kept=lambda: [len(stage) for stage in crew.stages],
        )

    def invoke(self, team: Crew) -> list[str]:
        return team.run(CANARY)

    async def ainvoke(self, team: Crew) -> list[str]:
        return await team.arun(CANARY)

    def stream(self, team: Crew) -> Iterator[str]:
        return team.play(CANARY)

    def astream(self, team: Crew) -> AsyncIterator[str]:
        return team.aplay(CANARY)
