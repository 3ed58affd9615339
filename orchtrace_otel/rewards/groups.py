"""Group statistics: how good a run was beside the other runs of its task.

A `Group` takes numbers one at a time, and is merged with others that other processes
filled. It keeps the count, the sum and the sum of squares, each exactly: a double is an
integer times a power of two, so both sums are integers at a fixed scale. Merging is
adding integers, which gives the same bits in whatever order; nothing cancels either,
however far the numbers are from 0. That is why this is not Welford's recurrence, whose
result depends on the order in its last digits.

sigma is the sample's, with n - 1. What a group of one or of equals says about its members
is nothing: their advantage is 0, and never their raw reward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from orchtrace_otel.rewards.credit.targets import agents, roles
from orchtrace_otel.rewards.facts import Facts

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace

EPSILON: Final = 1e-6
"""Added to sigma, as Dr. MAS does (arXiv 2602.08847)."""

Key: TypeAlias = tuple[str, ...]
"""What a group is of: `("task", task)`, `("agent", task, agent)`, `("role", task, role)`."""

_LEAST: Final = 1074
"""Every finite double is an integer times 2 ** -1074."""


@dataclass(slots=True)
class Group:
    """Numbers of one group, as sums that are exact.

    Attributes:
        n: How many.
        total: Their sum, in units of 2 ** -1074.
        squares: The sum of their squares, in units of 2 ** -2148.

    Example:
        >>> group = Group()
        >>> for reward in (1.0, 0.0, 0.0, 1.0):
        ...     group.add(reward)
        >>> group.mean, round(group.sigma, 4)
        (0.5, 0.5774)
        >>> round(group.grpo(1.0), 4), round(group.rloo(1.0), 4)
        (0.866, 0.6667)
    """

    n: int = 0
    total: int = 0
    squares: int = 0

    def add(self, value: float, times: int = 1) -> None:
        """Take a number, or several that are equal.

        Raises:
            ValueError: If it is not finite.
        """
        exact = _exact(value)
        self.n += times
        self.total += exact * times
        self.squares += exact * exact * times

    def discard(self, value: float, times: int = 1) -> None:
        """Take a number out again that was added, as when a later one replaces it.

        Raises:
            ValueError: If there are not so many.
        """
        if times > self.n:
            msg = f"a group must hold what is taken out of it, has {self.n}, came {times} to take"
            raise ValueError(msg)
        self.add(value, -times)

    def merge(self, other: Group) -> None:
        """Take all numbers of another group."""
        self.n += other.n
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float:
        """The mean; 0 for an empty group."""
        return float(Fraction(self.total, self.n << _LEAST)) if self.n else 0.0

    @property
    def sigma(self) -> float:
        """The sample's standard deviation; 0 for fewer than two numbers."""
        if self.n < 2:  # noqa: PLR2004 - one number has no spread
            return 0.0
        spread = (self.n * self.squares - self.total * self.total) // (self.n * (self.n - 1))
        # The root of an integer is exact to its unit, 2 ** -1074, and cannot overflow.
        return float(Fraction(math.isqrt(spread), 1 << _LEAST))

    def grpo(self, value: float, epsilon: float = EPSILON) -> float:
        """(value - mean) / (sigma + epsilon); 0 in a group of one or of equals."""
        sigma = self.sigma
        return self._above_mean(value) / (sigma + epsilon) if sigma else 0.0

    def rloo(self, value: float) -> float:
        """Value minus the mean of the others, for a value that the group holds; 0 alone."""
        return self._above_mean(value) * self.n / (self.n - 1) if self.n > 1 else 0.0

    def _above_mean(self, value: float) -> float:
        return float(Fraction(_exact(value) * self.n - self.total, self.n << _LEAST))

    def to_dict(self) -> dict[str, Any]:
        """The group for another process; integers as texts, which JSON keeps whole."""
        return {"n": self.n, "total": f"{self.total:x}", "squares": f"{self.squares:x}"}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Group:
        """Read what `to_dict` wrote."""
        return cls(document["n"], int(document["total"], 16), int(document["squares"], 16))


class Groups:
    """Groups by what they are of, filled from runs.

    A run counts for its task once; for each of its agents and roles as often as they took
    turns (LLM calls), each time with the run's outcome: Dr. MAS's per-agent statistics. An
    agent without a turn counts once. A run without an outcome counts nowhere.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> here, there = Groups(), Groups()
        >>> here.observe(Trace("r1", "q", (), rewards={"task": 1.0}))
        True
        >>> there.observe(Trace("r2", "q", (), rewards={"task": 0.0}))
        True
        >>> here.merge(there)
        >>> round(here["task", "q"].grpo(1.0), 4)
        0.7071
    """

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def __getitem__(self, key: Key) -> Group:
        """The group of a key; an empty one, that is not kept, where nothing came."""
        return self._groups.get(key) or Group()

    def __iter__(self) -> Iterator[Key]:
        """The keys, in order."""
        return iter(sorted(self._groups))

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def add(self, key: Key, value: float, times: int = 1) -> None:
        """Take a number into the group of a key.

        Raises:
            ValueError: If it is not finite.
        """
        group = self._groups.get(key) or Group()
        group.add(value, times)
        self._groups[key] = group

    def observe(self, trace: Trace) -> bool:
        """Take a run's outcome into its groups; say whether it has one.

        A run that comes again counts again: drop resends, or `forget` the run first.
        """
        return self._count(trace, 1)

    def forget(self, trace: Trace) -> bool:
        """Take a run that was observed out of its groups again.

        Raises:
            ValueError: If it was not observed.
        """
        return self._count(trace, -1)

    def _count(self, trace: Trace, sign: int) -> bool:
        facts = Facts(trace)
        outcome = facts.outcome
        if outcome is None or not math.isfinite(outcome.value):
            return False
        counts = _memberships(facts)
        if sign < 0:
            self._discard(counts, outcome.value)
        else:
            for key, times in counts.items():
                self.add(key, outcome.value, times)
        return True

    def _discard(self, counts: Mapping[Key, int], value: float) -> None:
        left = {key: replace(self[key]) for key in counts}
        for key, group in left.items():  # all of it, or nothing
            group.discard(value, counts[key])
        self._groups |= left
        for key, group in left.items():
            if not group.n:
                del self._groups[key]

    def advantages(self, trace: Trace) -> dict[Key, dict[str, float]]:
        """What GRPO and RLOO give a run that was observed, for each of its groups.

        Empty without an outcome.
        """
        facts = Facts(trace)
        if facts.outcome is None:
            return {}
        value = facts.outcome.value
        return {
            key: {"grpo": self[key].grpo(value), "rloo": self[key].rloo(value)}
            for key in _memberships(facts)
        }

    def merge(self, other: Groups) -> None:
        """Take all that another accumulator holds."""
        for key, group in other._groups.items():
            mine = self._groups.setdefault(key, Group())
            mine.merge(group)

    def to_json(self) -> list[dict[str, Any]]:
        """All groups, for another process to merge."""
        return [{"key": list(key), **self._groups[key].to_dict()} for key in self]

    @classmethod
    def from_json(cls, documents: Iterable[Mapping[str, Any]]) -> Groups:
        """Read what `to_json` wrote, or what several wrote one behind the other."""
        made = cls()
        for document in documents:
            made._groups.setdefault(tuple(document["key"]), Group()).merge(
                Group.from_dict(document)
            )
        return made


def _memberships(facts: Facts) -> dict[Key, int]:
    """The groups that a run belongs to, and how often."""
    task = facts.trace.task_id
    named = roles(facts)
    found: dict[Key, int] = {("task", task): 1}
    for agent, turns in _turns_by_agent(facts).items():
        found["agent", task, agent] = max(turns, 1)
        role = named.get(agent)
        if role is not None:
            key = ("role", task, role)
            found[key] = found.get(key, 0) + max(turns, 1)
    return found


def _turns_by_agent(facts: Facts) -> dict[str, int]:
    counts = dict.fromkeys(sorted({name for name in agents(facts) if name is not None}), 0)
    for turn in facts.trace.turns:
        if turn.agent in counts:
            counts[turn.agent] += 1
    return counts


def _exact(value: float) -> int:
    """A number in units of 2 ** -1074.

    Raises:
        ValueError: If it is not finite.
    """
    if not math.isfinite(value):
        msg = f"a group must hold finite numbers, came {value}"
        raise ValueError(msg)
    above, below = float(value).as_integer_ratio()
    return (above << _LEAST) // below
