"""Puppeteer (arXiv 2505.19591): the rewards of its orchestrator, as its code computes them.

Its cost factor grows with the step, so that the bonus for success grows with the length of
a run, and only the costs of its steps speak against that. `outcome.net_of_cost` falls with
every cost; this is here to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

_TOKENS: Final = 1e5
_BONUS: Final = 0.5


class Puppeteer(NamedTuple):
    """Its constants.

    Attributes:
        longest: T_max, the most steps of a run.
        scale: s.
        growth: g.
        factor: Of a step's cost; -1.5 for a search of the web.
        gamma: Discount of its return-to-go.
    """

    longest: int
    scale: float = 0.1
    growth: float = 1.0
    factor: float = -1.0
    gamma: float = 0.99

    def cost_factor(self, step: int) -> float:
        """Return c(t) = s ln(1 + g (t + 1) / (T_max + 1)) / ln(1 + g).

        Example:
            >>> [round(Puppeteer(4).cost_factor(t), 6) for t in (0, 1, 2)]
            [0.026303, 0.048543, 0.067807]
        """
        share = (step + 1) / (self.longest + 1)
        return self.scale * math.log1p(self.growth * share) / math.log1p(self.growth)

    def step_reward(self, step: int, tokens: float) -> float:
        """Return factor * c(t) * tokens / 100,000.

        Example:
            >>> round(Puppeteer(4).step_reward(1, 50_000), 6)
            -0.024271
        """
        return self.factor * self.cost_factor(step) * tokens / _TOKENS

    def terminal_reward(self, outcome: float, length: int) -> float:
        """Return r + 0.5 c(L) where r is above 0, else r - 0.5 c(L).

        Example:
            >>> round(Puppeteer(4).terminal_reward(1, 2), 6)
            1.033904
        """
        bonus = _BONUS * self.cost_factor(length)
        return outcome + bonus if outcome > 0 else outcome - bonus

    def returns(self, outcome: float, tokens: Sequence[float]) -> list[float]:
        """Return the return-to-go of each step and of the end, discounted.

        Args:
            outcome: r of the run.
            tokens: Tokens of each step.

        Example:
            >>> round(Puppeteer(4).returns(1, [20_000, 50_000])[0], 6)
            0.98404
        """
        going = self.terminal_reward(outcome, len(tokens))
        found = [going]
        for step in reversed(range(len(tokens))):
            going = self.step_reward(step, tokens[step]) + self.gamma * going
            found.append(going)
        return found[::-1]
