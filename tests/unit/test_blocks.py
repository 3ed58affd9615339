"""Blocks of the host's that are entered in one place and left in another, as in generators."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel.content import ask
from orchtrace_otel.replay import record
from orchtrace_otel.testing import capture
from tests.trees import recording


def headers() -> dict[str, str]:
    """Return the headers of a caller's run."""
    with capture():
        return dict(orchtrace.team("caller")(orchtrace.inject)())


BLOCKS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "aggregate": orchtrace.aggregate,
    "ask": lambda: ask("tiny", []),
    "extract": lambda: orchtrace.extract(headers()),
    "record": record,
}


@pytest.fixture(autouse=True)
def no_complaint(caplog: pytest.LogCaptureFixture) -> Generator[None, None, None]:
    """Nothing is logged: OpenTelemetry's own blocks log an error each."""
    yield
    assert caplog.records == []


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_in_a_stream_that_its_consumer_leaves_is_left_in_peace(block: str) -> None:
    """The loop closes the stream in a task of its own."""

    @orchtrace.agent
    async def stream() -> AsyncGenerator[int, None]:
        with BLOCKS[block]():
            yield 1
            yield 2

    @orchtrace.team
    async def read() -> None:
        async for _ in stream():
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with recording() as captured:
        asyncio.run(read())
    assert captured.open == {}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_may_be_left_in_another_thread(block: str) -> None:
    """As web frameworks do with what an endpoint depends on."""

    def depend() -> Generator[None, None, None]:
        with BLOCKS[block]():
            yield

    @orchtrace.team
    def serve() -> None:
        before = otel_context.get_current()
        depended = depend()
        entering = threading.Thread(target=next, args=(depended,))
        entering.start()
        entering.join()
        depended.close()
        assert otel_context.get_current() is before

    with capture():
        serve()


def test_an_extract_may_be_entered_again() -> None:
    """In itself too; afterwards all is as it was."""
    block = orchtrace.extract(headers())
    with recording() as captured:
        with block:
            with block:
                orchtrace.agent(lambda: None, name="one")()
            orchtrace.agent(lambda: None, name="two")()
        orchtrace.agent(lambda: None, name="three")()
    assert [trace.stop.agent for trace in captured.traces] == ["orchestrator"]
    names = [span.name for span in captured.spans if span.name.startswith("invoke_agent")]
    assert names == ["invoke_agent one", "invoke_agent two", "invoke_agent three"]
