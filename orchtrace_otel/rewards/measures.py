"""The structural measures of a run: exact from one trace, without a model.

One function per measure, from a `Run` to a number, or to None where the trace does
not tell. [P] marks a formula proposed for this project, [M] a textbook's; the example
in each is the same small run, an agent that works 6 of 8 seconds beside one that works 4.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.graph import NANOSECONDS, Graph
from orchtrace_otel.rewards.tokens import protocol_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.model import Trace


class Run(NamedTuple):
    """What the measures of one trace share; make it with `read_run`.

    Attributes:
        work_ns: Own work of all intervals; None where times are unknown or skewed.
        span_ns: Own work along the longest chain of causes; None as above, or on a cycle.
        makespan_ns: From the first event to the end of the last; None where skewed.
        peak: How many pieces of own work went on at once; None as for `work_ns`.
        tokens: All tokens; None where some are unknown.
        protocol_tokens: Those on decisions, delegations, messages and aggregates.
        useful_tokens: Those on events that led to the answer, 0 without one; None on a cycle too.
    """

    work_ns: int | None = None
    span_ns: int | None = None
    makespan_ns: int | None = None
    peak: int | None = None
    tokens: int | None = None
    protocol_tokens: int | None = None
    useful_tokens: int | None = None


def work(run: Run) -> float | None:
    """Seconds of own work, T1: what the run would take one thing at a time.

    Work and span model [M]: the sum of self-times.

    Example:
        >>> work(Run(work_ns=10_000_000_000))
        10.0
    """
    return _seconds(run.work_ns)


def span(run: Run) -> float | None:
    """Seconds of own work along the longest chain of causes, T-infinity.

    Work and span model [M]: ft(e) = d(e) + max of ft over the causes of e; the span
    is the greatest ft. What is over at a time has no chain longer than that time.

    Example:
        >>> span(Run(span_ns=6_000_000_000))
        6.0
    """
    return _seconds(run.span_ns)


def makespan(run: Run) -> float | None:
    """Seconds from the first event to the end of the last, T_P.

    Example:
        >>> makespan(Run(makespan_ns=8_000_000_000))
        8.0
    """
    return _seconds(run.makespan_ns)


def parallelism(run: Run) -> float | None:
    """Work by span: how many could have been busy at all times; 1 where the span is 0.

    Work and span model [M].

    Example:
        >>> parallelism(Run(work_ns=10_000_000_000, span_ns=6_000_000_000))
        1.6666666666666667
    """
    return _ratio(run.work_ns, run.span_ns, 1.0)


def speed_up(run: Run) -> float | None:
    """Work by makespan: how many were busy on average; 1 where the makespan is 0.

    Below 1 where the run stood idle. Work and span model [M].

    Example:
        >>> speed_up(Run(work_ns=10_000_000_000, makespan_ns=8_000_000_000))
        1.25
    """
    return _ratio(run.work_ns, run.makespan_ns, 1.0)


def peak_concurrency(run: Run) -> float | None:
    """K: how many pieces of own work went on at once, at most; at least 1.

    A sweep over starts and ends, ends first at ties; empty pieces do not count.

    Example:
        >>> peak_concurrency(Run(peak=2))
        2
    """
    return None if run.peak is None else max(run.peak, 1)


def parallelism_efficiency(run: Run) -> float | None:
    """Work by K times makespan: how busy K workers were kept; 1 where the makespan is 0.

    The metric's name is the published schema's; the formula [P].

    Example:
        >>> parallelism_efficiency(Run(work_ns=10**10, peak=2, makespan_ns=8 * 10**9))
        0.625
    """
    if run.peak is None or run.makespan_ns is None:
        return None
    return _ratio(run.work_ns, max(run.peak, 1) * run.makespan_ns, 1.0)


def protocol_overhead(run: Run) -> float | None:
    """Share of tokens spent on deciding, delegating, messages and merging; 0 without tokens.

    The metric's name is the published schema's; the formula [P].

    Example:
        >>> protocol_overhead(Run(tokens=1500, protocol_tokens=300))
        0.2
    """
    return _ratio(run.protocol_tokens, run.tokens, 0.0)


def waste(run: Run) -> float | None:
    """Share of tokens on what did not lead to the answer; 0 without tokens, 1 without one [P].

    Example:
        >>> waste(Run(tokens=1500, useful_tokens=1300))
        0.13333333333333333
    """
    if run.tokens is None or run.useful_tokens is None:
        return None
    return _ratio(run.tokens - run.useful_tokens, run.tokens, 0.0)


MEASURES: Final[Mapping[str, Callable[[Run], float | None]]] = MappingProxyType(
    {
        measure.__name__: measure
        for measure in (
            work,
            span,
            makespan,
            parallelism,
            speed_up,
            peak_concurrency,
            parallelism_efficiency,
            protocol_overhead,
            waste,
        )
    }
)
"""Every measure by its name in `Trace.metrics`."""

_MEASURES: Final = tuple(MEASURES.items())


def measure(trace: Trace) -> tuple[dict[str, float], frozenset[str]]:
    """Every measure that `trace` tells, and flags that say why others are absent."""
    return measure_facts(Facts(trace))


def measure_facts(facts: Facts) -> tuple[dict[str, float], frozenset[str]]:
    """The same from facts that others share."""
    run = read_run(facts)
    told = {name: value for name, of in _MEASURES if (value := of(run)) is not None}
    return told, facts.flags


def read_run(facts: Facts) -> Run:
    """Read what the measures need."""
    graph, chains, timed = facts.graph, facts.chains, facts.is_timed
    tokens, on_protocol, useful = _count_tokens(facts)
    return Run(
        work_ns=sum(graph.own_work) if timed else None,
        span_ns=None if chains is None else max(chains, default=graph.first) - graph.first,
        makespan_ns=_elapsed(graph),
        peak=graph.peak if timed else None,
        tokens=tokens,
        protocol_tokens=on_protocol,
        useful_tokens=useful,
    )


def _count_tokens(facts: Facts) -> tuple[int | None, int | None, int | None]:
    """All tokens, those on protocol, and those on what led to the answer."""
    tokens = facts.tokens
    if tokens is None:
        return None, None, None
    if not tokens:
        return 0, 0, 0 if facts.is_causal else None
    spent = protocol_tokens(facts.events, tokens, facts.graph.stop)
    useful: int | None = None
    if facts.is_causal:
        led = facts.led
        useful = sum([count for place, count in tokens.items() if led[place]])
    return sum(tokens.values()), spent, useful


def _elapsed(graph: Graph) -> int | None:
    if not graph.begin or "skewed" in graph.flags:
        return None
    return graph.last - graph.first


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NANOSECONDS


def _ratio(part: int | None, whole: int | None, otherwise: float) -> float | None:
    if part is None or whole is None:
        return None
    return part / whole if whole else otherwise
