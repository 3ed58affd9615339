"""What a host sees of a graph that fails, tries again, asks and is cached is equal with us."""

import asyncio
import operator
import re
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, Command, RetryPolicy, interrupt
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

MODES = ["values", "updates", "debug", "tasks", "checkpoints", "messages", "custom"]
THREAD = {"configurable": {"thread_id": "1"}}
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[0-9:.+]+|0x[0-9a-f]+|lc_run--|run--"
)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def build():
    """One node a step: flaky, cached, asking, and a graph inside."""
    failures = iter([True, True])
    model = FakeListChatModel(responses=["said"])

    def flaky(state):
        if next(failures, False):
            raise ValueError
        return {"log": ["flaky"]}

    def talks(state):
        return {"log": [model.invoke("hello").content, str(double.invoke({"x": 2}))]}

    inner = StateGraph(State)
    inner.add_node("asks", lambda state: {"log": [interrupt("?")]})
    inner.add_edge(START, "asks")
    graph = StateGraph(State)
    once_more = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    graph.add_node("flaky", flaky, retry_policy=once_more)
    graph.add_node("talks", talks, cache_policy=CachePolicy(key_func=lambda state: "key"))
    graph.add_node("sub", inner.compile())
    graph.add_edge(START, "flaky")
    graph.add_edge("flaky", "talks")
    graph.add_edge("talks", "sub")
    return graph.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())


class Listener(BaseCallbackHandler):
    """Writes down which callbacks came, and for what."""

    def __init__(self):
        self.heard = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        heard = super().__getattribute__("heard")

        def hear(*args: Any, **kwargs: Any) -> None:
            heard.append((name, kwargs.get("name"), sorted(kwargs), kwargs.get("tags")))

        return hear


def seen(mode, *, is_async):
    """All chunks, callbacks and checkpoints of a run that pauses, its rest, and a second run."""
    graph, listener = build(), Listener()
    chunks: list[Any] = []
    for thread in ("1", "2"):
        config = {"configurable": {"thread_id": thread}, "callbacks": [listener]}
        for given in ({}, Command(resume="yes")):
            options = {"stream_mode": mode, "subgraphs": True}
            if is_async:

                async def collect(given=given, config=config, options=options):
                    return [chunk async for chunk in graph.astream(given, config, **options)]

                chunks += asyncio.run(collect())
            else:
                chunks += graph.stream(given, config, **options)
    assert listener.heard
    kept = [
        (one.metadata, sorted(one.checkpoint["channel_values"]), one.pending_writes)
        for one in graph.checkpointer.list(THREAD)
    ]
    return [_CHANGING.sub("", repr(part)) for part in (chunks, listener.heard, kept)]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("mode", [*MODES, MODES], ids=str)
def test_chunks_callbacks_and_checkpoints_are_equal(mode, is_async):
    """In every mode of streaming, over pauses, tries and results from a cache."""
    without = seen(mode, is_async=is_async)
    with capture() as captured, orchtrace.instrument("langgraph"):
        traced = seen(mode, is_async=is_async)
    assert len(captured.traces) == 4
    assert (captured.open, captured.started) == ({}, captured.ended)
    for one, other in zip(traced, without, strict=True):
        assert one == other
