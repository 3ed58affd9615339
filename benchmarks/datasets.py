"""How many turns a second go into Parquet and into data sets, and what memory they take.

Rates are turns per CPU second, all threads counted, on this machine; each stands beside
the cost of a raw OpenTelemetry span in the same process, alternating, since a rate says
little about another machine. Content is by reference in Parquet, and in the JSON formats.
Parquet is written as in a team's process, data sets as by the command.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import shutil
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import alternate, cpu, provider, raw_spans, report
from orchtrace_files import ParquetExporter
from orchtrace_otel.content.folders import LocalFolder
from orchtrace_otel.datasets import Job, export
from orchtrace_otel.model import Trace
from orchtrace_otel.own_process import collect_garbage_seldom
from orchtrace_otel.schema import read_lines
from tests.recorded import Recorder, many, write

TURNS_A_RUN = 10
RAW_SPANS = 2_000


def renumbered(trace: Trace, number: int) -> Trace:
    """The same run under another id."""
    return Trace(
        # Random digits as real ids have them: long runs of decimal digits are read more slowly.
        hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest() + trace.trace_id[32:],
        trace.task_id,
        trace.events,
        trace.edges,
        trace.rewards,
        trace.costs,
        trace.system,
        trace.topology,
        trace.metrics,
    )


def runs(recorded: list[Trace], turns: int) -> Iterator[Trace]:
    """So many turns, in runs that repeat what was recorded."""
    for number in range(turns // TURNS_A_RUN):
        yield renumbered(recorded[number % len(recorded)], number)


def to_parquet(recorded: list[Trace], turns: int, folder: Path) -> None:
    """Write runs as a team's process would."""
    exporter = ParquetExporter(LocalFolder(folder))
    for trace in runs(recorded, turns):
        exporter.export(trace)
    exporter.shutdown()


def as_the_command(block: Callable[[], object]) -> Callable[[], None]:
    """Do something as `orchtrace export` does, whose process is its own."""

    def alone() -> None:
        before = gc.get_threshold()
        collect_garbage_seldom()
        try:
            block()
        finally:
            gc.set_threshold(*before)
            gc.unfreeze()

    return alone


def peak(block: Callable[[], object]) -> float:
    """Return the peak of Python's memory in MB."""
    tracemalloc.start()
    block()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 2**20


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--turns", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--formats", default="trl-sft,trl-sft-tokens,trl-kto,trl-rollout")
    given = options.parse_args()
    tracer = provider().get_tracer("raw")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = Recorder(folder)
        recorded = many(recorder, 200, tasks=50, calls=TURNS_A_RUN)
        events = statistics.fmean(len(trace.events) for trace in recorded) / TURNS_A_RUN
        source = folder / "in"
        write(source, list(runs(recorded, given.turns)))
        print(f"{given.turns:,} turns, {events:.1f} events each, in runs of {TURNS_A_RUN}")

        def measured(block: Callable[[], object], clear: Path) -> Callable[[], float]:
            def timed() -> float:
                shutil.rmtree(clear, ignore_errors=True)
                return cpu(block) / given.turns

            return timed

        def data_set(form: str) -> Callable[[], object]:
            job = Job(format=form, content=str(recorder.store))
            return as_the_command(lambda: export(job, [str(source)], folder / form))

        blocks: dict[str, Callable[[], float]] = {
            "raw": lambda: cpu(lambda: raw_spans(tracer, RAW_SPANS)) / RAW_SPANS,
            "parquet": measured(
                lambda: to_parquet(recorded, given.turns, folder / "lake"), folder / "lake"
            ),
        }
        forms = given.formats.split(",")
        for form in forms:
            blocks[form] = measured(data_set(form), folder / form)
        samples = alternate(blocks, given.rounds)
        aims = {"parquet": "> 20,000"}
        rates = [
            (f"{name}, turns a CPU second", 1 / statistics.median(times), aims.get(name, "> 5,000"))
            for name, times in samples.items()
            if name != "raw"
        ]
        report("Rates", rates)
        ratios = [
            (
                f"{name}, a turn as a ratio to a raw span",
                statistics.median(a / b for a, b in zip(times, samples["raw"], strict=True)),
                "",
            )
            for name, times in samples.items()
            if name != "raw"
        ]
        report("The same beside raw spans", ratios)
        before = time.process_time()
        lines = sum(line.trace is not None for line in read_lines(source / "traces.jsonl"))
        spent = time.process_time() - before
        read = lines * TURNS_A_RUN / spent
        report("Of which reading and checking JSON lines", [("turns a CPU second", read, "")])
        rows: list[tuple[str, float, str]] = []
        for turns in (given.turns // 4, given.turns):
            shutil.rmtree(folder / "lake")
            most = peak(lambda turns=turns: to_parquet(recorded, turns, folder / "lake"))
            rows.append((f"parquet, {turns:,} turns, peak MB", most, "flat"))
            few = folder / f"few-{turns}"
            write(few, list(runs(recorded, turns)))
            job = Job(format="trl-sft", content=str(recorder.store))
            most = peak(as_the_command(lambda few=few, job=job: export(job, [str(few)], None)))
            rows.append((f"trl-sft, {turns:,} turns, peak MB", most, "the largest task"))
        report("Memory", rows)


if __name__ == "__main__":
    main()
