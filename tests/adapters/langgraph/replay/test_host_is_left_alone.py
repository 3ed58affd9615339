"""What is the user's is read and never written: savers, stores, and a run that is open."""

import asyncio
import pickle
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from opentelemetry import trace as otel_trace

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Part
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    AGENTS,
    CONFIG,
    Calls,
    State,
    Update,
    has_both,
    in_a_row,
    joins,
    ran,
    research,
    says,
)


def test_the_users_saver_is_left_alone(traced: Captured, calls: Calls) -> None:
    """Byte for byte, whatever is replayed; and no span of any instrumentation comes of it."""
    saver = InMemorySaver()
    trace, target = ran(traced, research(calls, checkpointer=saver))

    def held() -> bytes:
        storage = {key: {**value} for key, value in saver.storage.items()}
        # Being read, some versions leave an empty place for what nobody wrote.
        writes = {key: value for key, value in saver.writes.items() if value}
        return pickle.dumps((storage, writes, dict(saver.blobs)))

    before, spans = held(), traced.started
    others = otel_trace.get_tracer("of another instrumentation", tracer_provider=traced.provider)

    def score(state: Any) -> float:
        with others.start_as_current_span("host's own"):
            return has_both(state)

    for players in (AGENTS, "message"):
        orchtrace.counterfactual(trace, target, players, score=score, replays=2)
    assert held() == before
    assert traced.started == spans
    assert len(traced.traces) == 1


def test_a_sqlite_saver_is_left_alone(traced: Captured, calls: Calls) -> None:
    """All rows of its tables are as they were."""
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    with sqlite.SqliteSaver.from_conn_string(":memory:") as saver:
        trace, target = ran(traced, research(calls, checkpointer=saver))

        def held() -> list[Any]:
            tables = ("checkpoints", "writes")
            return [saver.conn.execute(f"SELECT * FROM {one}").fetchall() for one in tables]  # noqa: S608 - our own names

        before = held()
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
        assert held() == before


def test_an_asynchronous_saver_is_read_from_another_thread(traced: Captured, calls: Calls) -> None:
    """Asked from within its loop, in a thread; replays have loops of their own."""
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")

    async def main() -> Any:
        async with aio.AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            graph = research(calls, "anode", checkpointer=saver)
            await graph.ainvoke({"findings": []}, CONFIG)
            target = graph.with_config(configurable={"thread_id": "one"})
            return await asyncio.to_thread(
                orchtrace.counterfactual,
                traced.traces[0],
                target,
                AGENTS,
                score=has_both,
                replays=2,
            )

    found = asyncio.run(main())
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]


def test_a_store_is_read_and_never_written(traced: Captured) -> None:
    """A replay sees its own puts, the user's store does not."""
    store = InMemoryStore()
    store.put(("town",), "river", {"name": "Oder"})
    seen: list[tuple[Any, Any, list[str]]] = []

    def writer(state: State, *, store: BaseStore) -> Update:
        store.put(("town",), "bridge", {"name": "new"})
        store.delete(("town",), "river")
        bridge = store.get(("town",), "bridge")
        assert bridge is not None
        river = store.get(("town",), "river")
        seen.append((river, bridge.value, [item.key for item in store.search(("town",))]))
        return joins(state)

    graph = in_a_row({"ann": says("red"), "writer": writer}, store=store)
    trace, target = ran(traced, graph)
    store.put(("town",), "river", {"name": "Oder"})
    store.delete(("town",), "bridge")
    seen.clear()
    found = orchtrace.counterfactual(trace, target, [Part("agent", "ann")], score=len, replays=2)
    assert found.lost == {}
    assert seen == [(None, {"name": "new"}, ["bridge"])] * 2
    assert [item.key for item in store.search(("town",))] == ["river"]


def test_replays_inside_of_an_open_run_leave_it_alone(traced: Captured, calls: Calls) -> None:
    """Asked from within a team that runs, nothing is added to its trace."""
    trace, target = ran(traced, research(calls))

    @orchtrace.team("judge")
    def judge() -> float | None:
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        return found.effects[0].value

    assert judge() == 1.0
    assert [event.verb for event in traced.traces[-1].events] == ["begin", "stop"]
