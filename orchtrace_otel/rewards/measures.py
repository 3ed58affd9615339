"""The structural measures of a run: exact from one trace, without a model.

One function per measure, from a `Run` to a number, or to None where the trace does
not tell. [P] marks a formula proposed for this project, [M] a textbook's; the example
in each is the same small run, an agent that works 6 of 8 seconds beside one that works 4.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel.rewards.answer import find_answer, is_stop_useful, led_to
from orchtrace_otel.rewards.graph import NANOSECONDS, Graph, read_graph
from orchtrace_otel.rewards.tokens import protocol_tokens, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchtrace_otel.model import Event, Trace


class Run(NamedTuple):
    """What the measures of one trace share; make it with `read_run`.

    Attributes:
        work_ns: Own work of all intervals; None where times are unknown or skewed.
        span_ns: Own work along the longest chain of causes; None as above, or on a cycle.
        makespan_ns: From the first event to the end of the last; None where skewed.
        peak: How many pieces of own work went on at once; None as for `work_ns`.
        tokens: All tokens; None where some are unknown.
        protocol_tokens: Those on decisions, delegations, messages and aggregates.
        useful_tokens: Those on events that led to the answer; None on a cycle too.
        answered: Whether the run has an answer.
    """

    work_ns: int | None = None
    span_ns: int | None = None
    makespan_ns: int | None = None
    peak: int | None = None
    tokens: int | None = None
    protocol_tokens: int | None = None
    useful_tokens: int | None = None
    answered: bool = True


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
    if run.tokens and not run.answered:
        return 1.0
    return _ratio(run.tokens - run.useful_tokens, run.tokens, 0.0)


_UNTIMED: Final = ("skewed", "duplicate_ids")
_UNCAUSAL: Final = ("cyclic", "duplicate_ids")

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


def measure(trace: Trace) -> tuple[dict[str, float], frozenset[str]]:
    """Every measure that `trace` tells, and flags that say why others are absent."""
    run, flags = read_run(trace)
    values: dict[str, float] = {}
    for name, function in MEASURES.items():
        value = function(run)
        if value is not None:
            values[name] = value
    return values, flags


def read_run(trace: Trace) -> tuple[Run, frozenset[str]]:
    """Read what the measures need, and flags for what cannot be had."""
    graph = read_graph(trace)
    tokens = read_tokens(trace)
    flags = graph.flags if tokens is not None else graph.flags | {"tokens_unknown"}
    timed = graph.timed and flags.isdisjoint(_UNTIMED)
    causal = flags.isdisjoint(_UNCAUSAL)
    useful, answered = _useful_tokens(trace.events, graph, tokens) if causal else (None, False)
    run = Run(
        work_ns=sum(graph.own_work) if timed else None,
        span_ns=_longest_chain(graph) if timed and causal else None,
        makespan_ns=_elapsed(graph),
        peak=graph.peak if timed else None,
        tokens=None if tokens is None else sum(tokens.values()),
        protocol_tokens=(
            None if tokens is None else protocol_tokens(trace.events, tokens, graph.stop)
        ),
        useful_tokens=useful,
        answered=answered,
    )
    return run, flags


def _useful_tokens(
    events: Sequence[Event], graph: Graph, tokens: Mapping[int, int] | None
) -> tuple[int | None, bool]:
    """Tokens on what led to the answer, None where unknown, and whether anything did."""
    if tokens is None:
        return None, True
    answer = find_answer(events, graph)
    by_itself = is_stop_useful(events, graph)
    answered = answer is not None or by_itself
    if not tokens:
        return 0, answered
    useful = led_to(answer, graph)
    if by_itself and graph.stop is not None:
        useful.add(graph.stop)
    return sum(count for place, count in tokens.items() if place in useful), answered


def _longest_chain(graph: Graph) -> int:
    """Own work along the longest chain of causes, in nanoseconds.

    Own work stands at the close of its interval, although some of it was done before
    what the interval waited for. Where that came from outside the interval, the chain
    would be longer than the time that has gone by; it is cut to that.
    """
    own_work, finish, causes, first = graph.own_work, graph.finish, graph.causes, graph.first
    chains = [first] * len(own_work)  # the time at which each event's chain could be over
    for place in graph.order:
        over = first
        for cause in causes[place]:
            chain = chains[cause]
            if chain > over:  # noqa: PLR1730 - `max` costs more than all the rest
                over = chain
        over += own_work[place]
        limit = finish[place]
        chains[place] = over if over < limit else limit
    return max(chains, default=first) - first


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
