"""Explanations of the built-in rewards and metrics of the families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.explaining.explanation import Explanation, chain, ordered, seconds
from orchtrace_otel.rewards.families.assignments import assignments
from orchtrace_otel.rewards.families.failures import failures
from orchtrace_otel.rewards.families.orchestration import communication
from orchtrace_otel.rewards.families.orchestration.collapse import why_spurious
from orchtrace_otel.rewards.families.orchestration.communication import awaited, uses
from orchtrace_otel.rewards.families.orchestration.lineage import sibling_pairs
from orchtrace_otel.rewards.families.orchestration.parallel import (
    K_MAX,
    peak_of_agents,
    work_by_instance,
)
from orchtrace_otel.rewards.families.orchestration.steps import steps_of, turns_by_place
from orchtrace_otel.rewards.families.tools import read_uses
from orchtrace_otel.rewards.graph import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.families.tools import ToolUse


def _assigned(facts: Facts) -> dict[int, str]:
    found = facts.share(assignments)
    return {
        place: "came back" if is_finished else "did not come back, or failed"
        for place, is_finished in zip(found.places, found.finished, strict=True)
    }


def r_parallel(facts: Facts) -> Explanation:
    """PARL's parallel term."""
    peak = facts.share(peak_of_agents) or 0
    return Explanation(
        f"(min(K, {K_MAX}) - 1) / ({K_MAX} - 1), K sub-agents at work at once; 0 without any",
        f"K = {peak}: ({max(min(peak, K_MAX), 1)} - 1) / {K_MAX - 1}",
        ordered(facts, _assigned(facts)),
    )


def r_finish(facts: Facts) -> Explanation:
    """PARL's finish term."""
    finished = facts.share(assignments).finished
    return Explanation(
        "assignments that came back in time without an error / assignments",
        f"{sum(finished)} / {len(finished)}",
        ordered(facts, _assigned(facts)),
    )


def serial_collapse(facts: Facts) -> Explanation:
    """Independent work done in turn."""
    pairs = facts.share(sibling_pairs)
    apart = "unknown" if pairs is None else str(pairs.all - pairs.connected)
    return Explanation(
        "-1 where assignments without a path between them ran one after the other, else 0",
        f"K = {facts.share(peak_of_agents)}, independent pairs: {apart}",
        ordered(facts, _assigned(facts)),
    )


def spurious_parallelism(facts: Facts) -> Explanation:
    """Assignments for show."""
    places = facts.share(assignments).places
    why = why_spurious(facts)
    return Explanation(
        "- assignments that led to no answer, did nothing or repeated a brief / assignments; 0 "
        "without any",
        f"- {len(why)} / {len(places)}",
        ordered(facts, {places[at]: reason for at, reason in why.items()}),
    )


def independence(facts: Facts) -> Explanation:
    """Pairs of assignments without a path."""
    pairs = facts.share(sibling_pairs)
    filled = "unknown" if pairs is None else f"({pairs.all} - {pairs.connected}) / {pairs.all}"
    return Explanation(
        "(pairs of assignments beside each other - pairs with a path between them) / pairs",
        filled,
        ordered(facts, _assigned(facts)),
    )


def overlap(facts: Facts) -> Explanation:
    """Briefs that are the same."""
    briefs = {
        place: str(facts.events[place].get("content_ref", "unknown"))
        for place in facts.share(assignments).places
    }
    return Explanation(
        "1 - different briefs / briefs",
        f"1 - {len(set(briefs.values()))} / {len(briefs)}",
        ordered(facts, briefs),
    )


def balance(facts: Facts) -> Explanation:
    """How evenly work was divided."""
    works = work_by_instance(facts)
    each = ", ".join(f"{name} {seconds(works[name])}" for name in sorted(works))
    count = len(works)
    filled = f"({each}): mean {seconds(sum(works.values()) // count)}" if count else "none"
    return Explanation(
        "mean / greatest own work of sub-agents; 1 without any",
        f"{filled}, greatest {seconds(max(works.values(), default=0))}",
        ordered(facts, _assigned(facts)),
    )


def critical_steps(facts: Facts) -> Explanation:
    """The chain with the most turns."""
    weights = turns_by_place(facts) or {}
    path = [place for place in chain(facts, steps_of(facts, weights)) if weights.get(place)]
    return Explanation(
        "LLM calls along the chain of causes that has the most",
        " + ".join(str(weights[place]) for place in path) or "0",
        ordered(facts, {place: _turns(weights[place]) for place in path}),
    )


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def error_amplification(facts: Facts) -> Explanation:
    """Failures, and those that came first."""
    failed, led = failures(facts)
    said = {at: "because of another" if at in led else "by itself" for at in failed}
    roots = len(failed) - len(led)
    filled = f"{len(failed)} / {roots} - 1" if failed else "none failed: 0"
    return Explanation(
        "events that failed / those that no failed one led to - 1", filled, ordered(facts, said)
    )


def message_delay(facts: Facts) -> Explanation:
    """What waiting for messages cost."""
    read = facts.share(awaited)
    said = {at: f"read by {len(readers)}" for at, readers in read.items()}
    chains = facts.chains or ()
    whole = max(chains, default=facts.graph.first) - facts.graph.first
    delay = communication.message_delay.read(facts)
    shorter = whole - round((delay if isinstance(delay, float) else 0.0) * NANOSECONDS)
    return Explanation(
        "span - span without waiting for messages",
        f"{seconds(whole)} - {seconds(shorter)}",
        ordered(facts, said),
    )


def messages_used(facts: Facts) -> Explanation:
    """Which messages led to the answer."""
    found = facts.share(uses) or {}
    return Explanation(
        "messages that were read and led to the answer / messages",
        f"{sum(found.values()):g} / {len(found)}",
        ordered(facts, {at: "used" if used else "not used" for at, used in found.items()}),
    )


def _tools(
    formula: str, name: str, yes: str, no: str, sign: str = ""
) -> Callable[[Facts], Explanation]:
    def explain(facts: Facts) -> Explanation:
        found: list[ToolUse] = list(read_uses(facts))
        known = {use.place: getattr(use, name) for use in found}
        said = {at: "unknown" if was is None else yes if was else no for at, was in known.items()}
        count = f"{sign}{sum(map(bool, known.values()))} / {len(found)}"
        return Explanation(formula, count, ordered(facts, said))

    return explain


_succeeded = _tools(
    "calls that gave a result without an error / calls", "succeeded", "succeeded", "failed"
)
_used = _tools("calls whose result led to the answer / calls", "used", "used", "not used")
_repeated = _tools("- calls that were made before / calls", "repeated", "repeated", "new", "- ")

FAMILIES: Final[Mapping[str, Callable[[Facts], Explanation]]] = {
    "r_parallel": r_parallel,
    "r_finish": r_finish,
    "serial_collapse": serial_collapse,
    "spurious_parallelism": spurious_parallelism,
    "independence": independence,
    "overlap": overlap,
    "balance": balance,
    "critical_steps": critical_steps,
    "error_amplification": error_amplification,
    "message_delay": message_delay,
    "messages_used": messages_used,
    "message_used": messages_used,
    "tools_succeeded": _succeeded,
    "tool_succeeded": _succeeded,
    "tools_used": _used,
    "tool_used": _used,
    "tools_repeated": _repeated,
    "tool_repeated": _repeated,
}
