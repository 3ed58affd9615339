"""Runs and threads at once do not mix, and nothing of a run stays."""

import asyncio
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from orchtrace_otel.advice import advisor as advisor_module
from orchtrace_otel.advice.watch import features_of
from tests.trees import recording
from tests.unit.advice.teams import critic, model, points, poll, run, team, writer


def test_nothing_of_a_run_waits_for_the_garbage_collector() -> None:
    """Agents run long: what watched a run goes when the run does."""
    made: list[weakref.ref[object]] = []

    def watch(run: spans.Run) -> spans.Watcher:
        watcher = make(run)
        made.append(weakref.ref(watcher))
        return watcher

    with orchtrace.advise(model()):
        make = spans.watchers[-1]
        spans.watchers.append(watch)
        gc.collect()
        gc.disable()
        try:
            with recording() as captured:
                team()
            captured.spans.clear()
            assert [ref() for ref in made] == [None]
        finally:
            gc.enable()
            spans.watchers.remove(watch)


def test_runs_that_go_on_at_once_do_not_mix() -> None:
    """Each has steps of its own."""

    @orchtrace.team
    async def one() -> None:
        await asyncio.sleep(0)
        writer()
        await asyncio.sleep(0)
        critic()

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    with orchtrace.advise(), recording() as captured:
        asyncio.run(many())
    assert len(captured.traces) == 20
    for trace in captured.traces:
        assert [event["features"]["step"] for event in points(trace)] == [1, 2, 3]


def test_agents_in_threads_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point is a step of its own, one is counted at a time, and nothing gets lost."""
    told: list[float] = []
    counting: list[int] = []
    most: list[int] = []

    def slow_features(*given: Any) -> dict[str, float]:
        counting.append(1)
        most.append(len(counting))
        sum(range(5_000))  # long enough for another thread to come in, if it may
        counting.pop()
        return features_of(*given)

    @orchtrace.agent
    def works(text: str) -> str:
        poll()
        return text

    @orchtrace.team
    def wide() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(works, map(str, range(40))))

    monkeypatch.setattr(advisor_module, "features_of", slow_features)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            orchtrace.instrument(),
            orchtrace.advise(callback=lambda point: told.append(point.features["step"])),
        ):
            trace = run(wide)
    finally:
        sys.setswitchinterval(before)
    found = points(trace)
    returns = [event["features"] for event in found if event.verb == "return"]
    assert set(most) == {1}
    assert sorted(told) == sorted(event["features"]["step"] for event in found)
    assert sorted(told) == list(range(1, 42))
    assert found[-1]["features"]["open_agents"] == 0
    assert max(one["repeats"] for one in returns) == 39
