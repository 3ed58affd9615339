"""What a turn costs with content on, by the length of its history: `python benchmarks/content.py`.

CPU time of the thread that asks, as the median of blocks in turns, for histories of 1 to
1,000 messages of 400 characters each, of which two are new in each turn. Beside it: what
it takes to serialise the whole history, as who keeps no memory of it does each time.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from typing import Any

import orjson
from langchain_core.messages import AIMessage, HumanMessage
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_langgraph._content import look, shape
from orchtrace_otel import content, spans

LENGTHS = (1, 10, 100, 1_000)
TURNS = 40
TEXT = "What was said before is said again, and again. " * 8


def turn(run: Any, history: list[Any]) -> None:
    recorder = content.active()
    interval = spans.open_turn(run.root, "m")
    opened = recorder.open_turn(interval, history, shape=shape, look=look)
    facts = opened.close([history[-1]], finish_reasons=["stop"])
    interval.close(attributes=facts)


def whole(history: list[Any]) -> None:
    orjson.dumps(content.active().copy([shape(one) for one in history])[0])


def main() -> None:
    where = tempfile.mkdtemp()
    orchtrace.configure(
        TracerProvider(shutdown_on_exit=False),
        exporters=[],
        content={"mode": "EVENT_ONLY", "store": where, "item_bytes": 1 << 30},
    )
    recorder = content.active()
    print("messages  ms a turn  ms to serialise all  bytes a turn")
    for length in LENGTHS:
        run = spans.start_run("team")
        history: list[Any] = [HumanMessage(f"{at} {TEXT}") for at in range(length)]
        turn(run, history)
        ours, all_of_it = [], []
        recorder.flush(30)
        before = run.content.bytes
        for at in range(TURNS):
            history += [AIMessage(f"{length} a{at} {TEXT}"), HumanMessage(f"{length} u{at} {TEXT}")]
            start = time.thread_time_ns()
            turn(run, history)
            ours.append(time.thread_time_ns() - start)
            if at % 8 == 0:
                start = time.thread_time_ns()
                whole(history)
                all_of_it.append(time.thread_time_ns() - start)
        used = (run.content.bytes - before) / TURNS
        run.close()
        print(
            f"{length:8}  {statistics.median(ours) / 1e6:9.3f}  "
            f"{statistics.median(all_of_it) / 1e6:19.3f}  {used:12.0f}"
        )
    orchtrace.shutdown()
    shutil.rmtree(where)


if __name__ == "__main__":
    main()
