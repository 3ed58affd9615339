"""Explanations of the measures of time and tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.explaining.explanation import Explanation, chain, ordered, seconds
from orchtrace_otel.rewards.measures import read_run
from orchtrace_otel.rewards.tokens import is_protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.rewards.facts import Facts


def _own(facts: Facts) -> dict[int, str]:
    return {at: seconds(own) for at, own in enumerate(facts.graph.own_work) if own}


def work(facts: Facts) -> Explanation:
    """Sum of own work."""
    total = read_run(facts).work_ns or 0
    own = _own(facts)
    return Explanation(
        "sum of own work, waiting taken out",
        f"{len(own)} pieces of own work, together {seconds(total)}",
        ordered(facts, own),
    )


def span(facts: Facts) -> Explanation:
    """The longest chain."""
    chains = facts.chains or ()
    total = read_run(facts).span_ns or 0
    # What each adds, which is less than its own work where the chain was cut to the time gone by.
    path = chain(facts, chains)
    reached = [facts.graph.first, *(chains[place] for place in path)]
    steps = zip(path, pairwise(reached), strict=True)
    added = {place: now - before for place, (before, now) in steps if now != before}
    filled = " + ".join(seconds(step) for step in [*added.values()][:8])
    more = " + ..." if len(added) > 8 else ""  # noqa: PLR2004 - what fits a line
    return Explanation(
        "own work along the longest chain of causes, never more than the time gone by",
        f"{filled}{more} -> {seconds(total)}",
        ordered(facts, {place: seconds(step) for place, step in added.items()}),
    )


def makespan(facts: Facts) -> Explanation:
    """From the first event to the end of the last."""
    graph = facts.graph
    places = range(len(graph.begin))
    first = min(places, key=lambda at: (graph.begin[at], facts.events[at].id))
    last = max(places, key=lambda at: (graph.finish[at], facts.events[at].id))
    return Explanation(
        "end of the last event - start of the first",
        f"{seconds(graph.last)} - {seconds(graph.first)}",
        ordered(facts, {first: "the first"} | {last: "the last"}),
    )


def _ratio(formula: str, over: str) -> Callable[[Facts], Explanation]:
    def explain(facts: Facts) -> Explanation:
        run = read_run(facts)
        below = {"span": run.span_ns, "makespan": run.makespan_ns}[over] or 0
        return Explanation(
            formula, f"{seconds(run.work_ns or 0)} / {seconds(below)}", ordered(facts, _own(facts))
        )

    return explain


def peak_concurrency(facts: Facts) -> Explanation:
    """The greatest number of pieces at once."""
    return Explanation(
        "K: pieces of own work at once, at most; at least 1",
        f"K = {max(facts.graph.peak, 1)}, of {len(_own(facts))} that end with these events",
        ordered(facts, _own(facts)),
    )


def parallelism_efficiency(facts: Facts) -> Explanation:
    """How busy K workers were."""
    run = read_run(facts)
    k = max(run.peak or 0, 1)
    return Explanation(
        "work / (K * makespan); 1 where nothing lasts",
        f"{seconds(run.work_ns or 0)} / ({k} * {seconds(run.makespan_ns or 0)})",
        ordered(facts, _own(facts)),
    )


def protocol_overhead(facts: Facts) -> Explanation:
    """Tokens of the protocol."""
    tokens = facts.tokens or {}
    spent = {
        at: count
        for at, count in tokens.items()
        if at != facts.graph.stop and is_protocol(facts.events[at])
    }
    return Explanation(
        "tokens on decide, delegate, message and aggregate / tokens; 0 without tokens",
        f"{sum(spent.values()):,} / {sum(tokens.values()):,}",
        ordered(facts, {at: f"{count:,} tokens" for at, count in spent.items()}),
    )


def waste(facts: Facts) -> Explanation:
    """Tokens on what did not lead to the answer."""
    run = read_run(facts)
    lost = {at: n for at, n in (facts.tokens or {}).items() if n and at not in facts.useful}
    return Explanation(
        "1 - tokens on what led to the answer / tokens, 0 without tokens; below, what did not lead "
        "there",
        f"1 - {run.useful_tokens or 0:,} / {run.tokens or 0:,}",
        ordered(facts, {at: f"{count:,} tokens" for at, count in lost.items()}),
    )


MEASURES: Final[Mapping[str, Callable[[Facts], Explanation]]] = {
    "work": work,
    "span": span,
    "makespan": makespan,
    "parallelism": _ratio("work / span; 1 where nothing lasts", "span"),
    "speed_up": _ratio("work / makespan; 1 where nothing lasts", "makespan"),
    "peak_concurrency": peak_concurrency,
    "parallelism_efficiency": parallelism_efficiency,
    "protocol_overhead": protocol_overhead,
    "waste": waste,
}
