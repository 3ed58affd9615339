"""How parallel a team was: PARL's two auxiliary rewards, and how evenly work was divided.

PARL (Kimi K2.5, arXiv 2602.02276) trains an orchestrator with
r = lambda1 r_parallel + lambda2 r_finish + r_perf, the lambdas falling to 0. The exact form
of r_parallel is not public; ours is the formula sheet's. Both terms are kept as
components, so that a trainer weighs them anew at each of its steps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import assignments, lasting
from orchtrace_otel.rewards.graph import at_once, fill_gaps
from orchtrace_otel.rewards.others import stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

K_MAX: Final = 5
"""Sub-agents at once from which on more are worth no more, in the inline `r_parallel`."""


def parallel_reward(peak: int, k_max: int = K_MAX) -> float:
    """Return (min(K, K_max) - 1) / (K_max - 1), 0 to 1; 0 without sub-agents.

    Args:
        peak: K, how many sub-agents worked at once, at most.
        k_max: How many are enough; above 1.

    Raises:
        ValueError: If `k_max` is not above 1.

    Example:
        >>> parallel_reward(3, k_max=5), parallel_reward(0)
        (0.5, 0.0)
    """
    if k_max <= 1:
        msg = f"k_max must be above 1, got {k_max}"
        raise ValueError(msg)
    return (max(min(peak, k_max), 1) - 1) / (k_max - 1)


def finish_reward(finished: int, assigned: int) -> float | None:
    """Return the share of assigned work that came back, 0 to 1; None where none was assigned.

    None has no weight. A 1 would pay a team for never assigning anything.

    Example:
        >>> round(finish_reward(2, 3), 4), finish_reward(0, 0)
        (0.6667, None)
    """
    return finished / assigned if assigned else None


@dataclass(frozen=True, slots=True)
class Schedule:
    """PARL's weights of the auxiliary terms, which fall to 0 while a policy learns.

    Attributes:
        start: Weight at step 0, lambda0.
        steps: Training step from which on it is 0.
    """

    start: float = 0.0
    steps: int = 1

    def weight(self, step: int) -> float:
        """Return lambda(k) = lambda0 * max(0, 1 - k / N).

        Raises:
            ValueError: If there are no steps, or `step` is below 0.

        Example:
            >>> Schedule(0.1, 1000).weight(500)
            0.05
        """
        if self.steps < 1 or step < 0:
            msg = f"a schedule needs steps >= 1 and a step >= 0, got {self.steps!r} and {step!r}"
            raise ValueError(msg)
        return self.start * max(0.0, 1 - step / self.steps)


def parl(
    performance: float, parallel: float | None, finish: float | None, weight: float = 0.0
) -> float:
    """Return r_perf + weight * (r_parallel + r_finish); a term that is None has no weight.

    Outside of training there is no step, and the weight is 0.

    Example:
        >>> round(parl(1, 0.5, 2 / 3, Schedule(0.1, 100).weight(0)), 6)
        1.116667
        >>> round(parl(1, 0.5, 2 / 3, Schedule(0.1, 100).weight(50)), 6)
        1.058333
    """
    return performance + weight * ((parallel or 0.0) + (finish or 0.0))


def brent_bounds(work: float, span: float, workers: int) -> tuple[float, float]:
    """Return the least and the most time that a greedy schedule takes with so many workers.

    max(T1 / K, Tinf) <= T_K <= Tinf + (T1 - Tinf) / K, Brent's bounds of the work and span
    model. What a run's makespan is above the first is its scheduling regret.

    Raises:
        ValueError: If there are no workers.

    Example:
        >>> brent_bounds(15, 9, 3)
        (9, 11.0)
    """
    if workers < 1:
        msg = f"brent_bounds() needs at least one worker, got {workers}"
        raise ValueError(msg)
    return max(work / workers, span), span + (work - span) / workers


def peak_of_agents(facts: Facts) -> int | None:
    """K: how many sub-agents worked at once, at most; ask it through `Facts.share`.

    One that waits for others of its own does not work, and one that begins and ends at
    the same time never does. In traces without activations it is counted over events
    that last, one for each agent that was given work; None where none of theirs does.
    """
    found, spans = facts.share(assignments), facts.share(lasting)
    if not spans:
        peak = _peak_of_lasting(facts, set(found.agents))
        return peak or (None if facts.share(stretches) else 0)
    names = set(found.activations)
    parts: defaultdict[str | None, list[tuple[int, int]]] = defaultdict(list)
    if not names.isdisjoint(found.parents):  # most teams are flat: their parent is the run itself
        for number, low, high in spans:
            parts[found.parents[number]].append((low, high))
    starts: list[int] = []
    ends: list[int] = []
    for number, low, high in spans:
        name = found.activations[number]
        if name in parts:
            fill_gaps(low, high, parts[name], starts, ends)
        elif low < high:
            starts.append(low)
            ends.append(high)
    return at_once(starts, ends)


def _peak_of_lasting(facts: Facts, names: Collection[str | None]) -> int:
    graph = facts.graph
    parts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, event in enumerate(facts.events):
        if event.agent in names and graph.begin[place] < graph.finish[place]:
            parts[event.agent].append((graph.begin[place], graph.finish[place]))
    starts: list[int] = []
    ends: list[int] = []
    for own in parts.values():
        own.sort()
        first = last = own[0]
        for part in own:  # what an agent does at once counts once
            if part[0] > last[1]:
                starts.append(first[0])
                ends.append(last[1])
                first = part
            last = max(last, part, key=itemgetter(1))
        starts.append(first[0])
        ends.append(last[1])
    return at_once(starts, ends)


@component(family="R7", unit="orchestrator", range=(0, 1), inputs=("spawn", "delegate", "return"))
def r_parallel(facts: Facts) -> float | None:
    """PARL: how many sub-agents worked at once, (min(K, 5) - 1) / 4; 0 without any.

    Ten that run one after the other give 0. Absent where times are unknown.
    """
    if not facts.share(assignments).places:
        return 0.0
    peak = facts.share(peak_of_agents) if facts.is_timed else None
    return None if peak is None else parallel_reward(peak)


@component(family="R7", unit="orchestrator", range=(0, 1), inputs=("spawn", "delegate", "return"))
def r_finish(facts: Facts) -> float | None:
    """PARL: share of assigned work that came back without an error and in time."""
    if "duplicate_ids" in facts.graph.flags:
        return None
    finished = facts.share(assignments).finished
    return finish_reward(sum(finished), len(finished))


@component(family="R7", range=(0, 1), inputs=("own work",), is_metric=True)
def balance(facts: Facts) -> float | None:
    """How evenly sub-agents were busy: mean by greatest own work; 1 without any.

    A sub-agent's work is that of all its activations and tools; two lives of one agent
    are two. Absent where times are unknown.
    """
    if not facts.is_timed:
        return None
    works = work_by_instance(facts)
    most = max(works.values(), default=0)
    if works and not most and facts.share(stretches):
        return None  # others may not say how long anybody worked
    return sum(works.values()) / (len(works) * most) if most else 1.0


def work_by_instance(facts: Facts) -> Mapping[str, int]:
    """Nanoseconds of own work of each sub-agent that was given any."""
    found, work = facts.share(assignments), facts.share(stretches)
    seen = {place for place, stretch in work.items() if stretch.places}
    works = {
        instance: 0
        for place, instance, closed in zip(found.places, found.instances, found.closed, strict=True)
        if instance is not None and (closed is not None or place in seen)
    }
    own_work = facts.graph.own_work
    for event, own in zip(compress(facts.events, own_work), filter(None, own_work), strict=True):
        instance = event.keys.get("instance", event.agent)
        if isinstance(instance, str) and instance in works:
            works[instance] += own
    return works
