"""A decorated call that is given the history, content on: `python benchmarks/content_of_calls.py`.

CPU time of the thread that calls, as the median of calls, for histories of 1 to 1,000
messages of 400 characters each, of which two are new in each call: as dicts that chat
servers take, and as LangChain's objects. Beside it the same call in a run that knows
nothing yet, as each call was before what is known was used; and two runs of 1,250 calls
each, as a team has them, with all that content costs.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import content

LENGTHS = (1, 10, 100, 1_000)
CALLS = 40
TEXT = "What was said before is said again, and again. " * 8


@orchtrace.agent
def answer(history: list[Any]) -> int:
    return len(history)


def as_dict(at: str, role: str) -> Any:
    return {"role": role, "content": f"{at} {role} {TEXT}"}


def as_object(at: str, role: str) -> Any:
    kind = AIMessage if role == "assistant" else HumanMessage
    return kind(f"{at} {role} {TEXT}")


def timed(call: Callable[[], Any]) -> float:
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e6


def blocks(make: Callable[[str, str], Any], length: int) -> tuple[float, float]:
    """Return the ms of a call in a run that goes on, and of one in a run that knows nothing."""
    known, fresh = [], []
    history = [make(f"{length} {at}", "user") for at in range(length)]

    @orchtrace.team
    def go_on() -> None:
        answer(history)
        for at in range(CALLS):
            history.extend((make(f"{length} a{at}", "assistant"), make(f"{length} u{at}", "user")))
            known.append(timed(lambda: answer(history)))

    @orchtrace.team
    def begin() -> None:
        fresh.append(timed(lambda: answer(history)))

    go_on()
    for _ in range(5):
        begin()
    content.active().flush(60)
    return statistics.median(known), statistics.median(fresh)


def two_runs(calls: int) -> float:
    """Return the seconds that two runs take in all of the process, of growing histories."""

    @orchtrace.team
    def work(name: str) -> None:
        history: list[Any] = []
        for at in range(calls):
            history.append(as_dict(f"{name} {at}", "user"))
            answer(history)

    start = time.process_time()
    for name in ("one", "two"):
        work(name)
    content.active().flush(600)
    return time.process_time() - start


def main() -> None:
    where = tempfile.mkdtemp()
    settings = {"mode": "EVENT_ONLY", "store": where}
    provider = TracerProvider(shutdown_on_exit=False)
    wide = {**settings, "item_bytes": 1 << 24, "run_bytes": 1 << 30, "queue_bytes": 1 << 30}
    orchtrace.configure(provider, exporters=[], content=wide)
    print("messages  of        ms a call  ms where nothing is known")
    for length in LENGTHS:
        for name, make in (("dicts", as_dict), ("objects", as_object)):
            known, fresh = blocks(make, length)
            print(f"{length:8}  {name:8}  {known:9.3f}  {fresh:25.3f}", flush=True)
    orchtrace.configure(provider, exporters=[], content=settings)
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1_250
    print(f"two runs of {calls} calls: {two_runs(calls):.1f} s")
    orchtrace.shutdown()
    shutil.rmtree(where)


if __name__ == "__main__":
    main()
