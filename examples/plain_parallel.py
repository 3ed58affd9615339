"""Agents at once: asyncio.gather, a pool of threads, and an aggregate of all results.

Calls that overlap are instances of their own, and each keeps its cause: in a gather, in
a task group and in a thread. The aggregate gets an edge from each result it merges.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import orchtrace_otel as orchtrace


@orchtrace.agent("scout")
async def scout(place: str) -> str:
    """Look around without blocking."""
    await asyncio.sleep(0.02)
    return f"{place} is quiet"


@orchtrace.agent("surveyor")
def survey(place: str) -> str:
    """Measure in a thread, because the instrument's library blocks."""
    time.sleep(0.03)
    return f"{place} is flat"


@orchtrace.team("expedition")
async def explore(places: list[str]) -> str:
    """Scout all places at once, and survey them in threads at the same time."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        surveys = [loop.run_in_executor(pool, survey, place) for place in places]
        notes = await asyncio.gather(*map(scout, places), *surveys)
    with orchtrace.aggregate(notes):
        report = "; ".join(notes)
    orchtrace.stop("information_complete", "every place was seen")
    return report


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    # Hands causes on to threads; frameworks that are installed are traced too.
    with orchtrace.instrument():
        print(asyncio.run(explore(["ridge", "valley"])))
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
