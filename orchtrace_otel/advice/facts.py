"""What the host knows and no span says: its answer, verdicts, votes, a plan, what is new."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeAlias, cast

from orchtrace_otel.advice.loops import Novelty, is_near, simhash

Answer: TypeAlias = "str | int | bytes"


class Facts:
    """What the host said of one run; content is hashed here and goes no further.

    Attributes:
        version: How often something changed; None until the host says anything.
        is_news: Whether something was new since a decision point last asked.
    """

    __slots__ = (
        "_answer",
        "_near",
        "_novelty",
        "_state",
        "agreement",
        "done",
        "entropy",
        "has_answer",
        "has_verdict",
        "is_news",
        "items",
        "novelty",
        "self_report",
        "unchanged",
        "verdict",
        "verdict_change",
        "version",
    )

    def __init__(self) -> None:
        self.version: int | None = None
        self.is_news = False
        self.has_answer = False
        self.unchanged = 0
        self.has_verdict = False
        self.verdict = 0.0
        self.verdict_change = 0.0
        self.agreement = 0.0
        self.entropy = 0.0
        self.novelty = 1.0
        self.items = 0
        self.done = 0
        self.self_report = False
        self._answer: int | None = None
        self._near: int | None = None
        self._state: int | None = None
        self._novelty = Novelty()

    def changed(self) -> None:
        """Note that something is new."""
        self.version = (self.version or 0) + 1
        self.is_news = True

    def known(self) -> None:
        """Note that the host says what changes, so that the same again means that nothing did."""
        if self.version is None:
            self.version = 0

    def answers(self, answer: Answer) -> None:
        """Take a candidate for the answer; one that is nearly the last one is the same."""
        mark = _mark(answer)
        near = simhash(answer) if isinstance(answer, str) else None
        is_same = mark == self._answer or (
            near is not None and self._near is not None and is_near(near, self._near)
        )
        self.unchanged = self.unchanged + 1 if is_same and self.has_answer else 0
        if not is_same:
            self.changed()
        self.has_answer = True
        self._answer, self._near = mark, near

    def results(self, text: str) -> None:
        """Take a result; what is new in it, and no near-duplicate, is progress."""
        self.novelty = self._novelty.see(text)
        if self.novelty > 0 and not self._novelty.is_duplicate:
            self.changed()

    def judges(self, verdict: float) -> None:
        """Take a verdict."""
        self.verdict_change = verdict - self.verdict if self.has_verdict else 0.0
        if self.verdict_change > 0:
            self.changed()
        self.has_verdict, self.verdict = True, verdict

    def votes(self, votes: Iterable[Hashable]) -> None:
        """Take votes, one a voter."""
        counts = sorted(Counter(votes).values())
        total = sum(counts)
        if not total:
            self.agreement = self.entropy = 0.0
            return
        shares = [count / total for count in counts]
        self.agreement = shares[-1]
        most = math.log(len(shares))
        entropy = -math.fsum(share * math.log(share) for share in shares)
        self.entropy = entropy / most if most else 0.0

    def plans(self, done: int, items: int) -> None:
        """Take how much of a plan is done."""
        if done > self.done:
            self.changed()
        self.done, self.items = done, items

    def holds(self, state: Hashable) -> None:
        """Take the state of what is worked on, such as a hash of an artifact."""
        mark = _mark(state)
        if mark != self._state:
            self.changed()
        self._state = mark


def _mark(value: Hashable) -> int:
    """Hash a value; Python's own hash of -1 is that of -2, alone and in a tuple."""
    if isinstance(value, tuple):
        return hash(tuple(map(_mark, cast("tuple[Hashable, ...]", value))))
    if isinstance(value, (int, float)) and value < 0:
        return hash(("-", -value))
    return hash(value)
