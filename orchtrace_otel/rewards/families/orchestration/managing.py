"""Rewards of orchestrators that manage many at once: ParaManager's, and WideSeek-R1's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from orchtrace_otel.model import Trace
from orchtrace_otel.rewards.families.outcome import check_budget
from orchtrace_otel.rewards.similarity import Similarity, by_words, pairwise

_SHORT: Final = 5000
_LONG: Final = 7000


class ManagerWeights(NamedTuple):
    """Weights of a manager's reward; ParaManager's own are not public."""

    success: float = 1.0
    protocol: float = 0.1
    diversity: float = 0.1
    efficiency: float = 0.1


class Managed(NamedTuple):
    """The components of a manager's reward, 0 to 1 each; None where unknown.

    Attributes:
        success: S.
        protocol: Valid calls by calls.
        diversity: 1 - the mean similarity of pairs of briefs that were given at once.
        spent: Tokens by budget; may be above 1.
        reward: Their weighted sum; None where a weighted component is unknown.
    """

    success: float | None
    protocol: float | None
    diversity: float | None
    spent: float | None
    reward: float | None


def manage(  # noqa: PLR0913 - each is a component's own input
    success: float | None,
    calls: Sequence[bool],
    briefs: Sequence[str],
    tokens: float | None,
    budget: float,
    *,
    weights: ManagerWeights = ManagerWeights(),  # noqa: B008 - frozen
    similarity: Similarity = by_words,
) -> Managed:
    """Grade an orchestrator the way of ParaManager (arXiv 2604.17009).

    w_s S + w_p valid / calls + w_d (1 - mean similarity of briefs) - w_e tokens / budget:
    the paper names the four terms, the form is the formula sheet's.

    Args:
        success: S, 0 to 1.
        calls: For each call of an agent or a tool whether it was valid.
        briefs: Texts that were given to sub-agents at once.
        tokens: Tokens of the run; None where some are unknown.
        budget: Tokens that it may take, above 0.
        weights: Of the terms; one of weight 0 need not be known.
        similarity: How alike two briefs are.

    Raises:
        ValueError: If the budget is not above 0.

    Example:
        >>> managed = manage(1, [True, True, False, True], ["a b", "a c"], 500, 1000)
        >>> managed.protocol, round(managed.diversity, 4), round(managed.reward, 4)
        (0.75, 0.6667, 1.0917)
    """
    alike = pairwise(briefs, similarity)
    protocol = sum(calls) / len(calls) if calls else None
    diversity = 1 - math.fsum(alike) / len(alike) if alike else None
    check_budget(budget)
    spent = None if tokens is None else tokens / budget
    terms = (
        (weights.success, success),
        (weights.protocol, protocol),
        (weights.diversity, diversity),
        (-weights.efficiency, spent),
    )
    reward: float | None = 0.0
    for weight, value in terms:
        if reward is not None and weight:
            reward = None if value is None else reward + weight * value
    return Managed(success, protocol, diversity, spent, reward)


def length_penalty(tokens: float, short: float = _SHORT, long: float = _LONG) -> float:
    """Return 0 up to `short` tokens, 1 from `long` on, and in between in proportion.

    WideSeek-R1 (arXiv 2602.04634) as coded.

    Raises:
        ValueError: If `long` is not above `short`.

    Example:
        >>> length_penalty(5000), length_penalty(6000), length_penalty(9000)
        (0.0, 0.5, 1.0)
    """
    if not long > short:
        msg = f"length_penalty() needs long > short, got {long!r} and {short!r}"
        raise ValueError(msg)
    return min(max((tokens - short) / (long - short), 0.0), 1.0)


def wide_reward(
    judged: float | None,
    *,
    well_formed: float = 0.0,
    searched: float = 0.0,
    penalty: float = 0.0,
    hit_limit: bool = False,
) -> float:
    """Return WideSeek-R1's reward: judge + format + search bonus - penalty, or 0.

    0 where no answer could be extracted (`judged` is None) or the lead hit a limit, as coded.

    Example:
        >>> wide_reward(0.5, well_formed=0.25, penalty=0.5), wide_reward(None)
        (0.25, 0.0)
    """
    if judged is None or hit_limit:
        return 0.0
    return judged + well_formed + searched - penalty


def sample_weights(tokens: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Return each turn's weight in training: 1 by agents, times its share of its agent's tokens.

    WideSeek-R1's: each agent of a run weighs the same, however many turns and tokens it
    has, so that many sub-agents do not drown the lead. The weights of a run sum to 1; an
    agent without tokens is none.

    Args:
        tokens: Agent to its turns, and each turn to its tokens.

    Example:
        >>> sample_weights({"lead": {"t1": 10, "t2": 30}, "sub": {"t3": 500}})
        {'t1': 0.125, 't2': 0.375, 't3': 0.5}
    """
    sums = {agent: sum(turns.values()) for agent, turns in tokens.items()}
    agents = sum(1 for total in sums.values() if total)
    return {
        turn: count / sums[agent] / agents
        for agent, turns in tokens.items()
        if sums[agent]
        for turn, count in turns.items()
    }


def turn_weights(trace: Trace) -> dict[str, float] | None:
    """Return `sample_weights` of a trace's turns, by turn id; None where a turn's are unknown.

    A turn's tokens are those that it wrote; two lives of an agent are two agents.
    """
    tokens: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for turn in trace.turns:
        who = turn.instance or turn.agent
        if who is None or turn.output_tokens is None:
            return None
        tokens[who][turn.id] = turn.output_tokens
    return sample_weights(tokens) if tokens else None
