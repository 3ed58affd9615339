"""Never executed: mypy --strict and pyright in strict mode must accept every line.

A decorator that lost a signature would show here, in `assert_type` or as a call that is
refused; a wrong call that is no longer refused shows as an unused `type: ignore`.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, MutableMapping
from typing import Any, assert_type

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import content


@orchtrace.agent
def plain(question: str, *, depth: int = 1) -> list[str]:
    return [question] * depth


@orchtrace.agent()
def empty(question: str) -> str:
    return question


@orchtrace.agent("named", role="executor")
async def search(question: str) -> bytes:
    return question.encode()


@orchtrace.agent(role="critic")
def items(most: int) -> Generator[int, str, bool]:
    sent = yield most
    return sent == ""


@orchtrace.agent
async def stream(most: int) -> AsyncGenerator[int, str]:
    yield most


@orchtrace.tool
def add(one: int, two: int) -> int:
    return one + two


@orchtrace.tool("named")
async def fetch(url: str) -> bytes:
    return url.encode()


@orchtrace.team("research", task_id="q-17", tags={"split": "dev"}, reward=lambda result: 1.0)
async def research(question: str) -> str:
    return question


@orchtrace.team
def bare(question: str) -> str:
    return question


async def functions() -> None:
    assert_type(plain("x", depth=2), list[str])
    assert_type(empty("x"), str)
    later: Coroutine[Any, Any, bytes] = search("x")
    assert_type(await later, bytes)
    assert_type(await search("x"), bytes)
    assert_type(items(1), Generator[int, str, bool])
    assert_type(stream(1), AsyncGenerator[int, str])
    assert_type(add(1, 2), int)
    assert_type(await fetch("x"), bytes)
    assert_type(await research("x"), str)
    assert_type(bare("x"), str)
    typed: Callable[[str], str] = bare
    typed("x")


class Desk:
    @orchtrace.agent
    def method(self, number: int) -> str:
        return str(number)

    @classmethod
    @orchtrace.agent("made")
    def make(cls, number: int) -> Desk:
        return cls()

    @staticmethod
    @orchtrace.tool
    def add(one: int) -> int:
        return one


@orchtrace.agent("writer")
class Writer:
    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, task: str) -> str:
        return task


@orchtrace.agent
class Editor(Writer):
    def arun(self, task: str) -> int:
        return len(task)


def classes() -> None:
    assert_type(Desk().method(1), str)
    assert_type(Desk.make(1), Desk)
    assert_type(Desk.add(1), int)
    assert_type(Writer("ann").run("x"), str)
    assert_type(Editor("ed"), Editor)
    assert_type(Editor("ed").name, str)
    assert_type(orchtrace.agent(Writer("ann"), name="ann", role="author"), Writer)
    assert_type(orchtrace.team(Writer("ann"), name="team"), Writer)
    assert_type(orchtrace.agent(lambda: str(3))(), str)


def verbs() -> None:
    orchtrace.spawn("critic")
    orchtrace.delegate("critic", task={"any": "thing"})
    orchtrace.message("critic", ["any", "thing"])
    orchtrace.decide("route", chosen="critic", candidates=["critic", "writer"])
    orchtrace.decide("route", chosen=["critic"], candidates=(name for name in ("a", "b")))
    orchtrace.decide("route", chosen="critic", probability=0.5)
    orchtrace.stop("quality_met", "score above 0.9")
    with orchtrace.aggregate([1, "x"]) as merging:
        assert_type(merging, orchtrace.aggregate)
    with orchtrace.aggregate():
        pass
    run = orchtrace.current_run()
    if run is not None:
        assert_type(run.id, str)
        assert_type(run.trace_id, str)
        assert_type(run.provisional(), orchtrace.Trace | None)
        orchtrace.record_reward("correctness", 1, run_id=run.id, event_id="x", n=3, se=0.1)
    headers: dict[str, str] = {}
    assert_type(orchtrace.inject(), MutableMapping[str, str])
    orchtrace.inject(headers)
    with orchtrace.extract(headers):
        pass


@orchtrace.reward(family="R7", unit="agent", estimator="structural", range=(0, 1), version="2")
def busy(trace: orchtrace.Trace) -> Mapping[str, float]:
    return {event.agent: 1.0 for event in trace.events}


def setting_up() -> None:
    def reward(trace: orchtrace.Trace) -> Mapping[str, float]:
        return {"events": len(trace.events)}

    orchtrace.configure()
    orchtrace.configure(
        tracer_provider=TracerProvider(),
        exporters=["jsonl:traces/", ConsoleSpanExporter(), Kept()],
        rewards=[reward, "installed"],
    )
    orchtrace.configure(rewards={"mine": reward})
    with orchtrace.instrument("langgraph") as handle:
        assert_type(handle, orchtrace.Instrumented)
    handle.uninstrument()
    assert_type(orchtrace.flush(timeout_s=1), bool)
    assert_type(orchtrace.losses(), Mapping[str, int])
    orchtrace.shutdown()


class Kept:
    """What an exporter of traces has to be, with nothing of ours inherited."""

    def export(self, trace: orchtrace.Trace) -> None: ...

    def amend(self, run_id: str, reward: orchtrace.Reward) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None: ...


def traces(text: str) -> None:
    trace = orchtrace.Trace.from_json(text)
    assert_type(trace, orchtrace.Trace)
    assert_type(trace.to_json(), str)
    assert_type(trace.events, tuple[orchtrace.Event, ...])
    assert_type(trace.edges, tuple[orchtrace.Edge, ...])
    assert_type(trace.turns, tuple[orchtrace.Turn, ...])
    assert_type(trace.stop, orchtrace.Event | None)
    assert_type(trace.events[0].verb, str)


def contents(trace: orchtrace.Trace) -> None:
    capture = content.Capture(mode="EVENT_ONLY", store="content/", redact=str.lower)
    orchtrace.configure(content=capture)
    orchtrace.configure(content={"mode": "SPAN_ONLY", "policy": {"version": "1"}})
    orchtrace.configure(content="NO_CONTENT")
    ref = trace.turns[0].content_ref
    assert_type(ref, str | None)
    with content.open_store("content/") as store:
        turn = content.read_turn(store, ref or "")
        assert_type(turn, content.TurnContent)
        assert_type(turn.tokens, content.Tokens)
        assert_type(store.references("ref"), int)
    assert_type(content.collect("content/").documents, int)
    assert_type(content.delete_run("content/", trace.trace_id).busy, int)
    with content.ask("model", [{"role": "user", "content": "who?"}]) as asked:
        asked.answered({})


async def refused() -> None:
    plain(3)  # type: ignore[arg-type]
    plain()  # type: ignore[call-arg]
    await search(1)  # type: ignore[arg-type]
    Desk().method("x")  # type: ignore[arg-type]
    Writer()  # type: ignore[call-arg]
    orchtrace.agent("a", role=3)  # type: ignore[call-overload]
