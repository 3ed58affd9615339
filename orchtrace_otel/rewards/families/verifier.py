"""R6: debate and verifiers: what a message changed, how well critics know, who agrees."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple, cast

from orchtrace_otel.model import Reward, Trace, is_number
from orchtrace_otel.rewards.contract import reward
from orchtrace_otel.rewards.facts import Facts

_HALF: Final = 0.5


def verdict_changes(verdicts: Sequence[float | None]) -> list[float | None]:
    """Return what each verdict changed: v after - v before, -1 to 1; None where one is unknown.

    The reward of the message or turn between two verdicts. The first has none before it.

    Example:
        >>> verdict_changes([0.25, 0.75, None, 0.5])
        [None, 0.5, None, None]
    """
    before: list[float | None] = [None, *verdicts]
    return [
        None if was is None or now is None else now - was
        for was, now in zip(before, verdicts, strict=False)  # the last stands before none
    ]


def verdict_rewards(component: str = "verdict") -> Callable[[Trace], Sequence[Reward]]:
    """Make a reward function of verdicts that events carry: for `configure(rewards=...)`.

    A verdict is a reward `component` of an event, on the event or recorded for its id. Each
    event with one gets `verdict_change`: its verdict less the one before.
    """

    @reward(family="R6", unit="message", estimator="judge", version="1")
    def verdict_change(trace: Trace) -> Sequence[Reward]:
        held = _verdicts(trace, component)
        places = [at for at, event in enumerate(trace.events) if event.id in held]
        judged = [trace.events[at] for at in Facts(trace).in_order(places)]
        changes = verdict_changes([held[event.id] for event in judged])
        return [
            Reward(
                id=f"{trace.trace_id}:verdict_change:{event.id}",
                component="verdict_change",
                value=change,
                family="R6",
                unit="message" if event.type == "message" else "turn",
                target=event.id,
                estimator="judge",
                version="1",
            )
            for event, change in zip(judged, changes, strict=True)
            if change is not None
        ]

    return verdict_change


def _verdicts(trace: Trace, component: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for event in trace.events:
        held = event.get("rewards")
        if not isinstance(held, dict):
            continue
        value = cast("Mapping[str, object]", held).get(component)
        if is_number(value):  # others may keep what they like there
            found[event.id] = value
    for record in trace.reward_records:
        if record.component == component and record.target is not None:
            found[record.target] = record.value
    return found


def calibration(said: float, success: float) -> float:
    """Return 1 - (p - S)^2: how well a critic knew, 0 to 1 (one minus the Brier score).

    Example:
        >>> round(calibration(0.8, 1), 4)
        0.96
    """
    return 1 - (said - success) ** 2


def zero_sum(scores: Mapping[str, float]) -> dict[str, float]:
    """Return each debater's score - the mean of the others'; all together sum to 0.

    For two debaters it is the difference; one alone has nobody to win against, and gets 0.

    Example:
        >>> zero_sum({"pro": 0.75, "con": 0.25})
        {'pro': 0.5, 'con': -0.5}
    """
    count = len(scores)
    if count < 2:  # noqa: PLR2004 - a debate needs two
        return dict.fromkeys(scores, 0.0)
    total = math.fsum(scores.values())
    return {name: score - (total - score) / (count - 1) for name, score in scores.items()}


def agreement(verdicts: Iterable[float], threshold: float = _HALF) -> float | None:
    """Return the share of pairs of verifiers that say the same, yes being above the threshold.

    None with fewer than two verifiers.

    Example:
        >>> round(agreement([0.9, 0.8, 0.2]), 4)
        0.3333
    """
    pairs = list(combinations([verdict > threshold for verdict in verdicts], 2))
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else None


def hits(verdicts: Mapping[str, float], success: float, threshold: float = _HALF) -> dict[str, int]:
    """Return for each verifier 1 where it said what came, else 0.

    Example:
        >>> hits({"strict": 0.2, "kind": 0.9}, success=1)
        {'strict': 0, 'kind': 1}
    """
    came = success > threshold
    return {name: int((verdict > threshold) == came) for name, verdict in verdicts.items()}


def not_independent(trace: Trace, verifiers: Iterable[str]) -> frozenset[str]:
    """Name the verifiers that share a model with an agent that is none.

    Such a verifier may like what it would have written itself: its rewards need a flag.
    Turns whose model is unknown tell nothing.
    """
    judging = frozenset(verifiers)
    models: defaultdict[str, set[str]] = defaultdict(set)
    solving: set[str] = set()
    for turn in trace.turns:
        if turn.model is None or turn.agent is None:
            continue
        if turn.agent in judging:
            models[turn.agent].add(turn.model)
        else:
            solving.add(turn.model)
    return frozenset(name for name, used in models.items() if used & solving)


def preference_loss(winner: float, loser: float) -> float:
    """Return -log sigmoid(r_w - r_l): the Bradley-Terry loss of OrchRM (arXiv 2606.13598).

    Example:
        >>> round(preference_loss(2, 1), 4)
        0.3133
    """
    margin = winner - loser
    # The one form is exact where the other overflows.
    if margin >= 0:
        return math.log1p(math.exp(-margin))
    return math.log1p(math.exp(margin)) - margin


class Pair(NamedTuple):
    """Two runs of one task: the one that was worth more, and the other."""

    winner: str
    loser: str


def preference_pairs(outcomes: Mapping[str, tuple[str, float]]) -> list[Pair]:
    """Return all pairs of runs of one task with different outcomes; ties are dropped.

    Args:
        outcomes: Run to its task and outcome.

    Example:
        >>> preference_pairs({"a": ("q", 1), "b": ("q", 0), "c": ("q", 1), "d": ("p", 0)})
        [Pair(winner='a', loser='b'), Pair(winner='c', loser='b')]
    """
    groups: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for run in sorted(outcomes):
        task, outcome = outcomes[run]
        groups[task].append((run, outcome))
    return [
        Pair(*((one, other) if worth > less else (other, one)))
        for task in sorted(groups)
        for (one, worth), (other, less) in combinations(groups[task], 2)
        if worth != less
    ]
