"""R5: how tools were used: valid calls, failures, the same call again, results that mattered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.component import Values, component
from orchtrace_otel.rewards.contract import reward
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import closed_well, closings, text, unwell
from orchtrace_otel.rewards.families.outcome import check_budget
from orchtrace_otel.rewards.families.tool_results import results_of_others
from orchtrace_otel.rewards.graph import NANOSECONDS

if TYPE_CHECKING:
    from orchtrace_otel.model import Event


class ToolUse(NamedTuple):
    """One call of a tool; what is None is unknown.

    Attributes:
        place: Position of the call.
        valid: Whether the call was one that the tool takes.
        succeeded: Whether it gave a result in time; without one it failed.
        used: Whether the result led to the answer.
        repeated: Whether the same call had succeeded before, and nothing had changed since.
        seconds: How long it took.
    """

    place: int
    valid: bool | None
    succeeded: bool
    used: bool | None
    repeated: bool | None
    seconds: float | None


class ToolWeights(NamedTuple):
    """What each part of a call's reward counts; `latency` is taken off for `budget_s` seconds."""

    valid: float = 0.2
    succeeded: float = 0.2
    used: float = 0.6
    repeated: float = 0.5
    latency: float = 0.0
    budget_s: float = 60.0


def tool_reward(use: ToolUse, weights: ToolWeights = ToolWeights()) -> float | None:  # noqa: B008 - frozen
    """Return the sheet's reward of a call; None where a part that has weight is unknown.

    w1 valid + w2 succeeded + w3 used - w4 repeated - kappa d / B: at most w1 + w2 + w3.

    Example:
        >>> use = ToolUse(0, valid=True, succeeded=True, used=False, repeated=True, seconds=None)
        >>> round(tool_reward(use), 4)
        -0.1
    """
    total = 0.0
    share = None if use.seconds is None else use.seconds / weights.budget_s
    for weight, value in (
        (weights.valid, use.valid),
        (weights.succeeded, use.succeeded),
        (weights.used, use.used),
        (-weights.repeated, use.repeated),
        (-weights.latency, share),
    ):
        if weight:
            if value is None:
                return None
            total += weight * value
    return total


def tool_rewards(
    weights: ToolWeights = ToolWeights(),  # noqa: B008 - frozen
    changing: Collection[str] = (),
) -> Callable[[Trace], Sequence[Reward]]:
    """Make a reward function that rewards each call of a tool: for `configure(rewards=...)`.

    A call for which a part with weight is unknown has none. Arguments, which tell a
    repeated call, are known where content is captured; where it is not, give
    `repeated=0`.

    Args:
        weights: Of the parts.
        changing: Names of tools after which the same call may give something else.

    Raises:
        ValueError: If the budget of latency is not above 0.
    """
    check_budget(weights.budget_s)

    @reward(family="R5", unit="tool_call", estimator="structural", version="1")
    def tool_use(trace: Trace) -> Sequence[Reward]:
        facts = Facts(trace)
        found: list[Reward] = []
        for use in read_uses(facts, changing):
            value = tool_reward(use, weights)
            if value is not None:
                target = trace.events[use.place].id
                found.append(
                    Reward(
                        id=f"{trace.trace_id}:tool_use:{target}",
                        component="tool_use",
                        value=value,
                        family="R5",
                        unit="tool_call",
                        target=target,
                        estimator="structural",
                        version="1",
                    )
                )
        return found

    return tool_use


def read_uses(facts: Facts, changing: Collection[str] = ()) -> Iterator[ToolUse]:
    """Read every call of a tool, in order of time.

    Args:
        facts: Of the trace.
        changing: Names of tools after which the same call may give something else.
    """
    events, graph = facts.events, facts.graph
    useful = facts.useful if facts.is_causal else None
    seen: dict[tuple[str | None, str | None], tuple[Event, int]] = {}
    changes, is_timed = 0, facts.is_timed
    calls = dict(zip(facts.by_type.get("tool_call", ()), facts.share(results), strict=True))
    for place in facts.in_order(calls):
        call, at = events[place], calls[place]
        keys = call.keys
        result = None if at is None else events[at]
        succeeded = result is not None and closed_well(result)
        repeated = seconds = None
        key = text(keys.get("tool")), text(keys.get("content_ref"))
        if key[1] is not None:
            repeated = _is_repeated(seen.get(key), result, changes)
            if succeeded and result is not None:
                seen[key] = (result, changes)
        changes += key[0] in changing
        if at is not None and is_timed:
            seconds = (graph.finish[at] - graph.begin[place]) / NANOSECONDS
        valid = _yes_or_no(keys.get("valid"))
        if valid is None and succeeded:
            valid = True  # else it would have given nothing
        yield ToolUse(
            place, valid, succeeded, None if useful is None else at in useful, repeated, seconds
        )


def _yes_or_no(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _is_repeated(before: tuple[Event, int] | None, result: Event | None, changes: int) -> bool:
    """Whether an earlier call like this one succeeded, and its result was the same.

    A call again after one that failed is a retry. One whose result has changed, where both
    are known, looked at something that moves.
    """
    if before is None or before[1] != changes:
        return False
    earlier, now = before[0].keys.get("content_ref"), None
    if result is not None:
        now = result.keys.get("content_ref")
    return earlier is None or now is None or earlier == now


def results(facts: Facts) -> Sequence[int | None]:
    """Position of each call's result; None where it never came. Ask it through `Facts.share`."""
    calls = facts.by_type.get("tool_call", ())
    if not calls:
        return []
    events, closing = facts.events, closings(facts, "tool_result")
    found: list[int | None] = []
    others: list[int] = []
    for place in calls:
        if events[place].id[-5:] == ".open":
            at = closing.get(place)
            found.append(None if at is None or events[at].type != "tool_result" else at)
        else:
            found.append(None)
            others.append(place)
    if not others:
        return found
    theirs = results_of_others(facts, others, closing.values())
    return [theirs.get(place, at) for place, at in zip(calls, found, strict=True)]


def called(facts: Facts) -> Mapping[int, int]:
    """Position of the call that each result is of, the earliest of several; likewise."""
    calls = dict(zip(facts.by_type.get("tool_call", ()), facts.share(results), strict=True))
    ordered = [(calls[place], place) for place in reversed(facts.in_order(calls))]
    return {at: place for at, place in ordered if at is not None}


def repeats(facts: Facts) -> Mapping[int, bool | None]:
    """Whether each call was one again; empty where no arguments are known. Likewise."""
    events = facts.events
    calls = facts.by_type.get("tool_call", ())
    if not any("content_ref" in events[place].keys for place in calls):
        return {}
    return {use.place: use.repeated for use in read_uses(facts)}


@component(family="R5", unit="tool_call", range=(0, 1), inputs=("tool_call", "status"))
def tool_succeeded(facts: Facts) -> Mapping[int, float]:
    """For each call: 1 where it gave a result without an error, else 0."""
    failed = {None, *facts.share(unwell)}
    calls = zip(facts.by_type.get("tool_call", ()), facts.share(results), strict=True)
    return {call: 0.0 if at in failed else 1.0 for call, at in calls}


@component(family="R5", unit="tool_call", range=(0, 1), inputs=("tool_call", "edges"))
def tool_used(facts: Facts) -> Mapping[int, float] | None:
    """For each call: 1 where its result led to the answer, else 0; absent on cycles."""
    found = facts.share(results)
    if not found or not facts.is_causal:
        return None
    led = facts.led
    calls = zip(facts.by_type["tool_call"], found, strict=True)
    return {call: 0.0 if at is None or not led[at] else 1.0 for call, at in calls}


@component(family="R5", unit="tool_call", range=(-1, 0), inputs=("tool_call", "content_ref"))
def tool_repeated(facts: Facts) -> Mapping[int, float] | None:
    """For each call whose arguments are known: -1 where it said nothing new, else 0."""
    found = facts.share(repeats)
    return {call: -1.0 if again else 0.0 for call, again in found.items() if again is not None}


@component(family="R5", range=(0, 1), inputs=("tool_call", "status"))
def tools_succeeded(facts: Facts) -> float | None:
    """Share of calls of tools that gave a result without an error; absent without calls."""
    return _mean(facts.share(tool_succeeded.read))


@component(family="R5", range=(0, 1), inputs=("tool_call", "edges"))
def tools_used(facts: Facts) -> float | None:
    """Share of calls whose result led to the answer; absent without calls, and on cycles."""
    return _mean(facts.share(tool_used.read))


@component(family="R5", range=(-1, 0), inputs=("tool_call", "content_ref"))
def tools_repeated(facts: Facts) -> float | None:
    """Minus the share of calls that were made before; absent where arguments are not known."""
    again = facts.share(repeats).values()
    return -sum(map(bool, again)) / len(again) if again and None not in again else None


def by_tool(trace: Trace) -> dict[str, dict[str, Any]]:
    """Count for each tool its calls, and those that succeeded, were used or were repeated.

    A count over something unknown is absent.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> call = Event("c", 0, "tool_call", "a", {"tool": "search", "status": "error"})
        >>> by_tool(Trace("run", "task", (call,)))
        {'search': {'calls': 1, 'succeeded': 0, 'used': 0}}
    """
    groups: defaultdict[str, list[ToolUse]] = defaultdict(list)
    for use in read_uses(Facts(trace)):
        groups[str(trace.events[use.place].get("tool"))].append(use)
    found: dict[str, dict[str, Any]] = {}
    for tool in sorted(groups):
        held = groups[tool]
        counts: dict[str, Any] = {"calls": len(held), "succeeded": sum(u.succeeded for u in held)}
        for name in ("used", "repeated"):
            values = [getattr(use, name) for use in held]
            if None not in values:
                counts[name] = sum(values)
        found[tool] = counts
    return found


def _mean(values: Values) -> float | None:
    """The mean over calls; None without any. All are whole, so their order changes nothing."""
    return sum(values.values()) / len(values) if isinstance(values, Mapping) and values else None
