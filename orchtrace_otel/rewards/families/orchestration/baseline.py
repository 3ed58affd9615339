"""What a team is worth beside one agent alone: measures of many runs (arXiv 2512.08296).

All need a matched baseline of single agents on the same tasks. The paper's error
amplification divides two probabilities of failure, and is not the ratio inside one trace
that `metrics` has under `error_amplification`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from orchtrace_otel.rewards.similarity import Similarity, by_words, pairwise


class Beside(NamedTuple):
    """A team beside a single agent, on the same tasks.

    Attributes:
        overhead: (T_team - T_alone) / T_alone, in turns.
        efficiency: S / (T_team / T_alone).
        amplification: E_team / E_alone; None where the single agent never failed.
    """

    overhead: float
    efficiency: float
    amplification: float | None


def beside_one_agent(
    turns: float, success: float, turns_alone: float, success_alone: float
) -> Beside:
    """Compare a team's mean turns and success with those of one agent alone.

    Raises:
        ValueError: If a count of turns is not above 0.

    Example:
        >>> found = beside_one_agent(30, 0.8, 20, 0.6)
        >>> [round(value, 4) for value in found]
        [0.5, 0.5333, 0.5]
    """
    if turns <= 0 or turns_alone <= 0:
        msg = f"turns must be above 0, got {turns} and {turns_alone}"
        raise ValueError(msg)
    failure = 1 - success_alone
    return Beside(
        turns / turns_alone - 1,
        success / (turns / turns_alone),
        (1 - success) / failure if failure else None,
    )


def output_redundancy(outputs: Sequence[str], similarity: Similarity = by_words) -> float | None:
    """Return how alike the outputs of agents are on average; None with fewer than two.

    The paper takes the cosine of embeddings: give `similarity.embedded(your_function)`.

    Example:
        >>> output_redundancy(["a b", "a b", "c"])
        0.3333333333333333
    """
    alike = pairwise(outputs, similarity)
    return math.fsum(alike) / len(alike) if alike else None


def message_density(messages: int, turns: int) -> float | None:
    """Return messages by turns; None without turns.

    Example:
        >>> message_density(6, 4)
        1.5
    """
    return messages / turns if turns else None
