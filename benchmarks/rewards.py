"""What it costs to score a run, per event, beside a raw span: measures, built-in rewards, credit.

`score` runs inside the host when a run stops. Each trace is built anew before it is scored,
outside of what is timed, as a run's is. The run has an outcome, or it would get no credit. Figures
are least CPU times by the least of a raw span.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from benchmarks.measure import alternate, least, provider, raw_spans, report
from benchmarks.traces import research
from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, measure, score
from orchtrace_otel.rewards.builtin import COMPONENTS, TOPOLOGY
from orchtrace_otel.rewards.component import Findings
from orchtrace_otel.rewards.credit import assign
from orchtrace_otel.rewards.credit.writing import on_events, records
from orchtrace_otel.rewards.measures import measure_facts
from orchtrace_otel.rewards.online import Online
from orchtrace_otel.testing import capture

RAW_SPANS = 100
SIZES = ((24, 1, 40, 9), (250, 1, 6, 9), (250, 100, 1, 5))
"""Researchers in a run, each of four events; how often this is repeated inside of one run, one
after the other; how often a round scores it; and rounds."""
Timed = Callable[[], float]
ADDED = frozenset({"credit", "rewards", "reward_records", "flags"})


def bare(trace: Trace) -> Trace:
    """Return a copy of a trace as it was before it was scored, with an outcome."""
    events = tuple(
        Event(
            one.id,
            one.t,
            one.type,
            one.agent,
            {key: value for key, value in one.keys.items() if key not in ADDED},
        )
        for one in trace.events
    )
    return replace(trace, events=events, rewards={"task": 1.0}, metrics={}, topology=None)


def per_event(block: Callable[[Trace], float | None], trace: Trace, repeats: int) -> Timed:
    """Return what a block costs per event, on copies that nobody scored yet.

    A block that is a part of something says itself how long it took.
    """

    def once() -> float:
        copies = [bare(trace) for _ in range(repeats)]
        gc.collect()
        spent = 0.0
        for fresh in copies:
            before = time.process_time()
            took = block(fresh)
            spent += time.process_time() - before if took is None else took
        return spent / repeats / len(trace.events)

    return once


def whole(trace: Trace) -> None:
    score(trace, fresh=True)


def measures(trace: Trace) -> None:
    measure(trace)


def components(trace: Trace) -> float:
    facts = Facts(trace)
    measure_facts(facts)
    before = time.process_time()
    findings = Findings()
    findings.take(COMPONENTS, facts)
    return time.process_time() - before


def topology(trace: Trace) -> float:
    facts = Facts(trace)
    assert facts.graph is not None
    before = time.process_time()
    assert TOPOLOGY is not None
    TOPOLOGY(facts)
    return time.process_time() - before


def credit(trace: Trace) -> float:
    facts = Facts(trace)
    measure_facts(facts)
    before = time.process_time()
    given = assign(facts)
    assert given is not None
    for event, numbers in zip(trace.events, on_events(facts, given), strict=True):
        event.keys["credit"] = numbers  # type: ignore[index]
    records(facts, given)
    return time.process_time() - before


def follow(trace: Trace) -> float:
    """Return what following the run online costs, event by event and at the end."""
    causes = defaultdict(list)
    for edge in trace.edges:
        causes[edge.dst].append(edge.src)
    before = time.process_time()
    run = Online()
    for event in trace.events:
        run.add(event, causes[event.id])
    run.finish(trace)
    return time.process_time() - before


def recorded(researchers: int) -> Trace:
    with capture() as captured:
        research(researchers)
    return captured.trace


def repeated(trace: Trace, times: int) -> Trace:
    """Return a run that does what another does several times, one after the other."""
    first, *inner, stop = trace.events
    root = first["activation"]
    step = stop.t + 1

    def named(identity: str, turn: int) -> str:
        return identity if identity.partition(".")[0] == root else f"{turn}-{identity}"

    def moved(event: Event, turn: int) -> Event:
        keys = dict(event.keys)
        for key in keys.keys() & {"activation", "parent"}:
            keys[key] = named(keys[key], turn)
        return Event(named(event.id, turn), event.t + turn * step, event.type, event.agent, keys)

    def cause(identity: str, turn: int) -> str:
        follows = identity == first.id and turn > 0
        return named(inner[-1].id, turn - 1) if follows else named(identity, turn)

    edges = [
        Edge(cause(edge.src, turn), named(edge.dst, turn), edge.type)
        for turn in range(times)
        for edge in trace.edges
        if edge.dst != stop.id or turn == times - 1
    ]
    events = [moved(event, turn) for turn in range(times) for event in inner]
    end = replace(stop, id=named(stop.id, times - 1), t=stop.t + (times - 1) * step)
    return replace(trace, events=(first, *events, end), edges=tuple(edges))


def held(trace: Trace) -> tuple[float, float]:
    """Return the bytes per event that scoring needs at most, and that it leaves behind."""
    fresh = bare(trace)
    gc.collect()
    tracemalloc.start()
    scored = score(fresh, fresh=True)
    now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / len(scored.events), now / len(scored.events)


def figures(researchers: int, times: int, repeats: int, rounds: int) -> None:
    trace = recorded(researchers)
    if times > 1:
        trace = repeated(trace, times)
    tracer = provider().get_tracer("raw")

    def raw() -> float:
        gc.collect()
        before = time.process_time()
        for _ in range(20):
            raw_spans(tracer, RAW_SPANS)
        return (time.process_time() - before) / 20 / RAW_SPANS

    samples = alternate(
        {
            "raw": raw,
            "all of it (score)": per_event(whole, trace, repeats),
            "measures": per_event(measures, trace, repeats),
            "families": per_event(components, trace, repeats),
            "topology": per_event(topology, trace, repeats),
            "credit": per_event(credit, trace, repeats),
            "followed online": per_event(follow, trace, repeats),
        },
        rounds,
    )
    found = {name: least(samples, name, "raw") for name in samples if name != "raw"}
    together = "rewards and credit together (topology is neither)"
    found = {together: found["all of it (score)"] - found["topology"], **found}
    rows = [(name, figure, "<= 0.15" if name == together else "") for name, figure in found.items()]
    title = f"A run of {len(trace.events)} events, CPU time per event as a ratio to a raw span"
    report(title, rows)
    most, left = held(trace)
    report(
        "Memory of scoring, bytes per event",
        [("at most", most, ""), ("left on the trace: credit, rewards", left, "")],
    )


def main() -> None:
    for size in SIZES:
        figures(*size)


if __name__ == "__main__":
    main()
