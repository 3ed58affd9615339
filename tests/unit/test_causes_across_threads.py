"""Causes reach whatever runs an agent: tasks, groups, pools, executors and threads."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN_CONTEXT, Link

import orchtrace_otel as orchtrace
from orchtrace_otel.flow import Flow, Mark
from tests.trees import edges, recording, tree


@orchtrace.agent
async def critic(number: int) -> int:
    await asyncio.sleep(0)
    return number


@orchtrace.agent
def planner(number: int = 0) -> int:
    return number


class Together:
    """An agent whose calls wait for each other, so that they surely overlap."""

    def __init__(self, calls: int) -> None:
        self.barrier = threading.Barrier(calls, timeout=30)

    @orchtrace.agent("worker")
    def work(self, number: int) -> int:
        self.barrier.wait()
        return number


FAN_OUT = {
    "team#1.open -spawn-> planner#1.open",
    "team#1.open -spawn-> worker#1.open",
    "team#1.open -spawn-> worker#2.open",
    "planner#1.close -return-> worker#1.open",
    "planner#1.close -return-> worker#2.open",
    "worker#1.close -aggregate-> aggregate",
    "worker#2.close -aggregate-> aggregate",
    "aggregate -causal-> stop",
}
"""A plan, two workers that overlap and follow from it, and what merges their results."""


async def by_gather(work: Callable[[int], int]) -> list[int]:
    return await asyncio.gather(*(asyncio.to_thread(work, number) for number in (1, 2)))


async def by_anyio(work: Callable[[int], int]) -> list[int]:
    anyio = pytest.importorskip("anyio")
    return await asyncio.gather(*(anyio.to_thread.run_sync(work, one) for one in (1, 2)))


async def by_group(work: Callable[[int], int]) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.to_thread(work, number)) for number in (1, 2)]
    return [task.result() for task in tasks]


async def by_run_in_executor(work: Callable[[int], int]) -> list[int]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor() as pool:
        return await asyncio.gather(*(loop.run_in_executor(pool, work, one) for one in (1, 2)))


async def by_submit(work: Callable[[int], int]) -> list[int]:
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(work, number) for number in (1, 2)]
    return [future.result() for future in futures]


async def by_map(work: Callable[[int], int]) -> list[int]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, (1, 2)))


async def by_thread_pool(work: Callable[[int], int]) -> list[int]:
    with ThreadPool(2) as pool:
        return pool.map(work, iter((1, 2)))


async def by_threads(work: Callable[[int], int]) -> list[int]:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(work(number)))
        for number in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize(
    "fan_out",
    [
        by_anyio,
        by_gather,
        by_group,
        by_run_in_executor,
        by_submit,
        by_map,
        by_thread_pool,
        by_threads,
    ],
)
def test_causes_survive_every_way_of_running_things_side_by_side(
    fan_out: Callable[[Callable[[int], int]], Awaitable[list[int]]],
) -> None:
    """Workers on other threads follow from the plan before them, and are merged after."""

    @orchtrace.team
    async def team() -> None:
        planner()
        results = await fan_out(Together(2).work)
        with orchtrace.aggregate(results):
            pass

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == FAN_OUT


def test_what_one_map_hands_to_a_pool_follows_from_nothing_else_of_it() -> None:
    """Work that is over before the next is handed out was not waited for; a later map did wait."""

    @orchtrace.team
    def team() -> None:
        with ThreadPoolExecutor(max_workers=1) as pool:

            def slowly() -> Iterator[int]:
                for number in (1, 2):
                    yield number
                    pool.submit(int).result()  # the only thread has done what came before

            list(pool.map(planner, slowly()))
            list(pool.map(planner, (3,)))

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> planner#1:2.open",
        "team#1.open -causal-> planner#1:3.open",
        "planner#1.close -return-> planner#1:3.open",
        "planner#1:2.close -return-> planner#1:3.open",
        "planner#1:3.close -return-> stop",
    }


def test_a_gather_makes_instances_of_their_own_and_an_aggregate_merges_them() -> None:
    """Calls that overlap in one gather are separate lives, each spawned by the caller."""

    @orchtrace.team
    async def team() -> int:
        results = await asyncio.gather(critic(1), critic(2))
        with orchtrace.aggregate(results):
            return sum(results)

    with recording() as captured:
        asyncio.run(team())
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#2 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  critic#2.close\n"
        "  aggregate < aggregate critic#1.close, aggregate critic#2.close\n"
        "  stop information_complete < causal aggregate"
    )


def test_a_task_group_does_as_a_gather_does() -> None:
    """A TaskGroup's tasks are separate lives that return into what comes next."""

    @orchtrace.team
    async def team() -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(critic(1))
            group.create_task(critic(2))
        return await critic(3)

    with recording() as captured:
        asyncio.run(team())
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#2 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  critic#2.close\n"
        "  critic#2:2 delegate"
        " < causal team#1.open, return critic#1.close, return critic#2.close\n"
        "  critic#2:2.close\n"
        "  stop information_complete < return critic#2:2.close"
    )


def test_calls_one_after_another_share_an_instance() -> None:
    """A loop is one life that is used again, each call after what came back before."""

    @orchtrace.team
    def team() -> None:
        for number in range(3):
            planner(number)

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  planner#1 spawn < spawn team#1.open\n"
        "  planner#1.close\n"
        "  planner#1:2 delegate < causal team#1.open, return planner#1.close\n"
        "  planner#1:2.close\n"
        "  planner#1:3 delegate < causal team#1.open, return planner#1:2.close\n"
        "  planner#1:3.close\n"
        "  stop information_complete < return planner#1:3.close"
    )


def test_what_a_branch_gathers_follows_from_the_branch() -> None:
    """Not from what began the branch, and what comes back goes on in the branch alone."""

    @orchtrace.team
    async def team() -> None:
        async def branch() -> None:
            await search(1)
            await asyncio.gather(write(2), write(3))
            await judge(4)

        await asyncio.gather(branch(), search(5))

    @orchtrace.agent
    async def search(number: int) -> None:
        await asyncio.sleep(0)

    @orchtrace.agent
    async def write(number: int) -> None:
        await asyncio.sleep(0)

    @orchtrace.agent
    async def judge(number: int) -> None:
        await asyncio.sleep(0)

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> search#1.open",
        "team#1.open -spawn-> search#2.open",
        "search#1.close -return-> write#1.open",
        "search#1.close -return-> write#2.open",
        "team#1.open -spawn-> write#1.open",
        "team#1.open -spawn-> write#2.open",
        "write#1.close -return-> judge#1.open",
        "write#2.close -return-> judge#1.open",
        "team#1.open -spawn-> judge#1.open",
        "judge#1.close -return-> stop",
        "search#2.close -return-> stop",
    }


def test_a_task_that_outlives_the_branch_which_made_it_comes_back_to_what_is_around() -> None:
    """Its maker is over, and has told already what it knew."""
    left: list[asyncio.Task[None]] = []

    @orchtrace.agent
    async def search(number: int) -> None:
        await asyncio.sleep(0)

    @orchtrace.team
    async def team() -> None:
        gate = asyncio.Event()

        async def later() -> None:
            await search(2)
            await gate.wait()
            await search(3)

        async def branch() -> None:
            await search(1)
            left.append(asyncio.create_task(later()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        await asyncio.gather(branch(), asyncio.sleep(0))
        await search(4)
        gate.set()
        await asyncio.gather(*left)

    with recording() as captured:
        asyncio.run(team())
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  search#1 spawn < spawn team#1.open\n"
        "  search#1.close\n"
        "  search#1:2 delegate < causal team#1.open, return search#1.close\n"
        "  search#1:2.close\n"
        "  search#1:3 delegate < causal team#1.open, return search#1:2.close\n"
        "  search#1:3.close\n"
        "  search#1:4 delegate < causal team#1.open, return search#1:2.close\n"
        "  search#1:4.close\n"
        "  stop information_complete < return search#1:3.close, return search#1:4.close"
    )


def test_a_second_gather_follows_from_the_first() -> None:
    """What two gathers do is ordered, although no task of the second saw the first."""

    @orchtrace.team
    async def team() -> None:
        await asyncio.gather(critic(1), critic(2))
        await asyncio.gather(critic(3), critic(4))

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> critic#1.open",
        "team#1.open -spawn-> critic#2.open",
        "team#1.open -causal-> critic#1:2.open",
        "team#1.open -causal-> critic#2:2.open",
        "critic#1.close -return-> critic#1:2.open",
        "critic#1.close -return-> critic#2:2.open",
        "critic#2.close -return-> critic#1:2.open",
        "critic#2.close -return-> critic#2:2.open",
        "critic#1:2.close -return-> stop",
        "critic#2:2.close -return-> stop",
    }


@pytest.mark.parametrize("in_pool", [False, True])
def test_jobs_of_a_pool_do_not_follow_from_each_other(in_pool: bool) -> None:
    """Four jobs on one thread of a pool are siblings, though they run one after another."""
    ready = threading.Event()

    @orchtrace.agent
    def job(number: int) -> int:
        ready.wait(30)
        return number

    @orchtrace.team
    def team() -> int:
        with ThreadPoolExecutor(1) as pool:
            results = pool.map(job, range(4))
            ready.set()
            return sum(results)

    @orchtrace.team
    async def team_async() -> int:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            futures = [loop.run_in_executor(pool, job, number) for number in range(4)]
            ready.set()
            return sum(await asyncio.gather(*futures))

    with recording() as captured:
        assert (asyncio.run(team_async()) if in_pool else team()) == 6
    openings = {edge for edge in edges(captured.trace) if edge.endswith(".open")}
    assert {edge.split(" -")[0] for edge in openings} == {
        captured.trace.events[0]["to"] + "#1.open"
    }


@pytest.mark.parametrize("places", [1, 10])
def test_tasks_that_wait_for_a_place_do_not_follow_from_all_before(places: int) -> None:
    """Many tasks behind a semaphore: edges grow with the tasks, not with their square."""
    tasks = 300

    @orchtrace.agent
    async def worker(number: int) -> None:
        for _ in range(1 + number % 7):
            await asyncio.sleep(0)

    @orchtrace.team
    async def team() -> None:
        semaphore = asyncio.Semaphore(places)

        async def one(number: int) -> None:
            async with semaphore:
                await worker(number)

        await asyncio.gather(*(one(number) for number in range(tasks)))

    with recording(deterministic=False) as captured:
        asyncio.run(team())
    assert len(captured.trace.edges) < tasks * 4


def test_a_decision_in_a_task_is_a_cause_of_what_its_maker_does_next() -> None:
    """As `asyncio.wait_for` makes a task of what it waits for, on some Pythons."""

    @orchtrace.team
    async def team() -> None:
        async def choose() -> None:
            orchtrace.decide("route", chosen="critic")

        await asyncio.wait({asyncio.create_task(choose())})
        await critic(1)

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -causal-> decide",
        "team#1.open -spawn-> critic#1.open",
        "decide -causal-> critic#1.open",
        "critic#1.close -return-> stop",
    }


@pytest.mark.parametrize("tasks", [0, 1, 3])
def test_a_task_that_another_only_waits_for_does_its_work(tasks: int) -> None:
    """Frameworks run coroutines so; what such a task hands on to others knows what it did."""

    async def work() -> None:
        planner()
        await asyncio.gather(critic(1), critic(2))

    async def through(number: int) -> None:
        await (work() if number == 0 else asyncio.create_task(through(number - 1)))

    @orchtrace.team
    async def team() -> None:
        await through(tasks)

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -spawn-> critic#1.open",
        "team#1.open -spawn-> critic#2.open",
        "planner#1.close -return-> critic#1.open",
        "planner#1.close -return-> critic#2.open",
        "critic#1.close -return-> stop",
        "critic#2.close -return-> stop",
    }


def test_tasks_that_wait_for_each_other_hold_up_nobody() -> None:
    """Who asks beside them where it is gets its answer: it is elsewhere."""
    one: Any = SimpleNamespace()
    other: Any = SimpleNamespace(_fut_waiter=one)
    one._fut_waiter = other
    flow = Flow(Mark("1.open", Link(INVALID_SPAN_CONTEXT)), one)
    assert flow.here() is not flow


def test_a_task_that_only_watches_takes_no_causes_away() -> None:
    """What came back before a watcher began reaches the work beside it, by way of its instant."""

    @orchtrace.team
    async def team() -> None:
        planner()
        ready = asyncio.Event()

        async def watch() -> None:
            orchtrace.decide("watch", chosen="on")
            ready.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(watch())
        await ready.wait()
        await critic(1)
        task.cancel()

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> decide",
        "planner#1.close -return-> decide",
        "team#1.open -spawn-> critic#1.open",
        "decide -causal-> critic#1.open",
        "critic#1.close -return-> stop",
    }


def test_calls_in_a_thread_one_after_another_are_a_sequence() -> None:
    """`await to_thread(...)` twice is one cause after another, whichever thread ran it."""

    @orchtrace.team
    async def team() -> None:
        await asyncio.to_thread(planner, 1)
        await asyncio.to_thread(planner, 2)

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> planner#1:2.open",
        "planner#1.close -return-> planner#1:2.open",
        "planner#1:2.close -return-> stop",
    }


class Greenlet:
    """What `threading.current_thread()` gives where threads are greenlets: no thread, no task."""

    def __init__(self, after_its_end: type[Exception]) -> None:
        self.is_over = False
        self.after_its_end = after_its_end

    def is_alive(self) -> bool:
        if self.is_over:
            raise self.after_its_end
        return True

    def run(self, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
        """Do work as if this one were running."""
        running = SimpleNamespace(get_ident=lambda: id(self), current_thread=lambda: self)
        with monkeypatch.context() as patched:
            patched.setattr("orchtrace_otel.flow.threading", running)
            work()
        self.is_over = True


@pytest.mark.parametrize("after_its_end", [RuntimeError, AssertionError])
def test_greenlets_are_told_apart_as_threads_are(
    after_its_end: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a sequence of its own; what comes later follows from all that are over."""

    @orchtrace.team
    def team() -> None:
        for _ in range(2):
            Greenlet(after_its_end).run(lambda: (planner(1), planner(2)), monkeypatch)
        orchtrace.decide("end", chosen="now")

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> planner#1:2.open",
        "planner#1.close -return-> planner#1:2.open",
        "team#1.open -causal-> planner#1:3.open",
        "planner#1:2.close -return-> planner#1:3.open",
        "team#1.open -causal-> planner#1:4.open",
        "planner#1:3.close -return-> planner#1:4.open",
        "team#1.open -causal-> decide",
        "planner#1:4.close -return-> decide",
        "decide -causal-> stop",
    }


def test_work_for_a_thread_that_worked_before_follows_from_what_hands_it_on() -> None:
    """The threads of anyio, in which Starlette works, are used again: they begin anew each time."""
    anyio = pytest.importorskip("anyio")

    @orchtrace.team
    async def team() -> None:
        await anyio.to_thread.run_sync(planner, 1)
        await by_anyio(Together(2).work)
        orchtrace.decide("enough", chosen="yes")
        await anyio.to_thread.run_sync(planner, 2)

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -spawn-> worker#1.open",
        "team#1.open -spawn-> worker#2.open",
        "planner#1.close -return-> worker#1.open",
        "planner#1.close -return-> worker#2.open",
        "worker#1.close -return-> decide",
        "worker#2.close -return-> decide",
        "team#1.open -causal-> decide",
        "decide -causal-> planner#1:2.open",
        "decide -causal-> stop",
        "planner#1:2.close -return-> stop",
    }


def test_work_for_the_thread_that_waits_for_it_follows_from_what_hands_it_on() -> None:
    """asgiref, and so Django, has a thread that waits for asynchronous code do what is not."""
    sync = pytest.importorskip("asgiref.sync")
    handed_over = threading.Event()

    @orchtrace.agent("worker")
    def work() -> None:
        handed_over.wait(30)

    async def view() -> None:
        async def go_on() -> None:
            handed_over.set()

        await asyncio.gather(sync.sync_to_async(work)(), sync.sync_to_async(work)(), go_on())
        orchtrace.decide("enough", chosen="yes")
        await sync.sync_to_async(planner)()

    @orchtrace.team
    def team() -> None:
        sync.async_to_sync(view)()

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> worker#1.open",
        "team#1.open -causal-> worker#1:2.open",
        "worker#1.close -return-> decide",
        "worker#1:2.close -return-> decide",
        "team#1.open -causal-> decide",
        "decide -spawn-> planner#1.open",
        "decide -causal-> stop",
        "planner#1.close -return-> stop",
    }


def test_threads_that_are_gone_came_back_though_one_goes_on_beside_them() -> None:
    """The next thread may stand where one was in memory, whose work counts all the same."""

    @orchtrace.team
    def team() -> None:
        with ThreadPoolExecutor() as pool:
            together = Together(2)
            goes_on = pool.submit(together.work, 0)
            for number in range(6):
                thread = threading.Thread(target=planner, args=(number,))
                thread.start()
                thread.join()
                del thread
            orchtrace.decide("enough", chosen="yes")
            together.barrier.wait()
            goes_on.result()

    with recording() as captured:
        team()
    into_decide = {edge for edge in edges(captured.trace) if edge.endswith("-> decide")}
    planned = ["planner#1", *(f"planner#1:{number}" for number in range(2, 7))]
    assert into_decide == {
        "team#1.open -causal-> decide",
        *(f"{one}.close -return-> decide" for one in planned),
    }


THREAD_POOL: dict[str, Callable[[ThreadPool], list[int]]] = {
    "map": lambda pool: pool.map(planner, (1, 2)),
    "starmap": lambda pool: pool.starmap(planner, iter([(1,), (2,)])),
    "imap": lambda pool: list(pool.imap(planner, (1, 2))),
    "imap_unordered": lambda pool: list(pool.imap_unordered(planner, [1, 2])),
    "apply_async": lambda pool: [
        one.get() for one in [pool.apply_async(planner, (number,)) for number in (1, 2)]
    ],
}


@pytest.mark.parametrize("how", THREAD_POOL)
def test_work_of_a_thread_pool_is_the_runs_that_hands_it_over(how: str) -> None:
    """Its only thread began outside of the run, and goes on from one piece of work to the next."""

    @orchtrace.team
    def team(pool: ThreadPool) -> list[int]:
        pool.apply_async(time.sleep, (0.02,))  # all is handed over before any of it begins
        results = THREAD_POOL[how](pool)
        orchtrace.decide("enough", chosen="yes")
        return results

    with ThreadPool(1) as pool, recording() as captured:
        assert team(pool) == [1, 2]
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> planner#1:2.open",
        "planner#1.close -return-> decide",
        "planner#1:2.close -return-> decide",
        "team#1.open -causal-> decide",
        "decide -causal-> stop",
    }


def test_what_a_job_does_is_a_sequence_of_its_own() -> None:
    """Two agents called one after another in a job are linked, and the last one returns."""

    def job() -> None:
        planner(1)
        planner(2)

    @orchtrace.team
    def team() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(job).result()
        planner(3)

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> planner#1.open",
        "team#1.open -causal-> planner#1:2.open",
        "planner#1.close -return-> planner#1:2.open",
        "team#1.open -causal-> planner#1:3.open",
        "planner#1:2.close -return-> planner#1:3.open",
        "planner#1:3.close -return-> stop",
    }


def test_a_task_that_runs_beside_its_maker_keeps_its_own_sequence() -> None:
    """What a worker task did last is its own cause, also when its maker looked meanwhile."""

    @orchtrace.team
    async def team() -> None:
        first_is_done, may_go_on = asyncio.Event(), asyncio.Event()

        async def beside() -> None:
            await critic(1)
            first_is_done.set()
            await may_go_on.wait()
            await critic(2)

        task = asyncio.create_task(beside())
        await first_is_done.wait()
        orchtrace.decide("route", chosen="on")
        may_go_on.set()
        await task

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -spawn-> critic#1.open",
        "team#1.open -causal-> decide",
        "critic#1.close -return-> decide",
        "team#1.open -causal-> critic#1:2.open",
        "critic#1.close -return-> critic#1:2.open",
        "critic#1:2.close -return-> stop",
        "decide -causal-> stop",
    }


def test_an_agent_in_a_thread_nests_what_it_calls() -> None:
    """The activation is current on the other thread, tools and agents lie below it."""

    @orchtrace.tool
    def look_up() -> None: ...

    @orchtrace.agent
    def worker() -> None:
        look_up()
        planner()

    @orchtrace.team
    def team() -> None:
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  worker#1 spawn < spawn team#1.open\n"
        "    look_up.open < causal worker#1.open\n"
        "    look_up.close\n"
        "    planner#1 spawn < spawn worker#1.open, tool_dependency look_up.close\n"
        "    planner#1.close\n"
        "  worker#1.close < return planner#1.close\n"
        "  stop information_complete < return worker#1.close"
    )


def test_twenty_runs_at_once_do_not_mix() -> None:
    """Runs in one loop, each with a gather inside, are the same run twenty times."""

    @orchtrace.team
    async def team(number: int) -> int:
        planner(number)
        results = await asyncio.gather(critic(number), critic(number + 1))
        with orchtrace.aggregate(results):
            return sum(results)

    async def main() -> list[int]:
        return await asyncio.gather(*(team(number) for number in range(20)))

    with recording(deterministic=False) as captured:
        assert asyncio.run(main()) == [2 * number + 1 for number in range(20)]
    assert len({trace.trace_id for trace in captured.traces}) == 20
    assert len({frozenset(edges(trace)) for trace in captured.traces}) == 1


def test_twenty_runs_in_threads_do_not_mix() -> None:
    """Runs on the threads of a pool are runs of their own, all alike."""
    barrier = threading.Barrier(20, timeout=30)

    @orchtrace.team
    def team(number: int) -> int:
        barrier.wait()
        return planner(planner(number))

    with recording(deterministic=False) as captured, ThreadPoolExecutor(20) as pool:
        assert list(pool.map(team, range(20))) == list(range(20))
    assert len({trace.trace_id for trace in captured.traces}) == 20
    assert len({frozenset(edges(trace)) for trace in captured.traces}) == 1


def test_pools_are_left_as_they_were() -> None:
    """After the last user has gone, `submit` is the very method it was."""
    before = ThreadPoolExecutor.submit
    with recording():
        assert ThreadPoolExecutor.submit is not before
    assert ThreadPoolExecutor.submit is before
