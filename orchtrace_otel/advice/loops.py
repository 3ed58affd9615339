"""Teams that go round in circles: repeats, cycles, near-duplicates, stalls and deadlocks.

An action counts as a repeat only where nothing changed since: its hash holds the version
of what it touches. Where nobody says whether anything changed, a repeat is a number to
learn from and no loop. Tools that are made for polling never are one.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Collection, Hashable, Iterable
from typing import Final, NamedTuple

LOOP_COUNT: Final = 3
"""How often an action comes on one version until it is a loop."""

STALL: Final = 8
"""Actions without anything new until a run has stalled."""

SIMHASH_BITS: Final = 64
NEAR: Final = 3
"""Bits that near-duplicates may differ in."""

_REMEMBERED: Final = 4_096
"""Actions, results and texts that are remembered; the oldest are forgotten first."""

_LONGEST: Final = 32
"""Actions in the longest cycle that is sought."""

_TEXTS: Final = 64
"""Latest texts that a new one may be a near-duplicate of."""

_GRAM: Final = (2, 3, 4)
_WORD: Final = re.compile(r"\w+")


class Action(NamedTuple):
    """What was done, as far as it can be told from what was done before.

    Attributes:
        agent: Who did it.
        kind: What it was, such as `return`, `tool_call` or `delegate`.
        target: The tool, or the agent it goes to.
        arguments: Hash of the arguments; None where they are not known.
        version: Version of what it touches; None where nobody says.
    """

    agent: str
    kind: str
    target: str | None = None
    arguments: Hashable = None
    version: Hashable = None

    @property
    def can_repeat(self) -> bool:
        """Whether it is known well enough for a repeat to mean that nothing changed."""
        return self.version is not None


class Seen(NamedTuple):
    """What an action says of the run, once it is added to those before.

    Attributes:
        repeats: How often the same action came before on the same version.
        period: Period of the cycle that the latest actions make, in actions; 0 without one.
        is_loop: Whether the loop rule holds: the cycle came twice, or one action thrice, and
            nothing changed meanwhile.
        stalled: Actions since something was new.
    """

    repeats: int
    period: int
    is_loop: bool
    stalled: int


class Loops:
    """Finds loops while a run goes on; each action takes the same time.

    Args:
        pollable: Tools that may be called again and again.

    Example:
        >>> loops = Loops()
        >>> for agent in "ABABAB":
        ...     seen = loops.see(Action(agent, "return", version=1))
        >>> seen.period, seen.is_loop
        (2, True)
    """

    def __init__(self, pollable: Collection[str] = ()) -> None:
        self._pollable = frozenset(pollable)
        self._counts: dict[int, int] = {}
        self._latest: deque[int] = deque(maxlen=_LONGEST)
        self._matched = [0] * (_LONGEST + 1)
        self._stalled = 0
        self._seen = Seen(0, 0, is_loop=False, stalled=0)

    @property
    def latest(self) -> Seen:
        """What the latest action said."""
        return self._seen

    def see(self, action: Action, *, is_progress: bool = False) -> Seen:
        """Add an action.

        Args:
            action: The action.
            is_progress: Whether something was new: a requirement, an artifact, evidence, or a
                better verdict.
        """
        if action.target is not None and action.target in self._pollable:
            return self._seen._replace(is_loop=False)  # what came before was told then
        self._stalled = 0 if is_progress else self._stalled + 1
        mark = hash(action)
        repeats = self._counts.get(mark, 0)
        _remember(self._counts, mark, repeats + 1)
        period = self._period(mark)
        is_loop = action.can_repeat and (period > 0 or repeats + 1 >= LOOP_COUNT)
        self._seen = Seen(repeats, period, is_loop, self._stalled)
        return self._seen

    def _period(self, mark: int) -> int:
        """Return the shortest period that the latest actions had twice; 0 without one.

        An action may come more than once in a cycle, so each period is counted by itself: how
        many actions in a row equal the one that came so long before.
        """
        found = 0
        matched = self._matched
        for period, before in enumerate(self._latest, 1):
            matched[period] = matched[period] + 1 if before == mark else 0
            if not found and matched[period] >= max(period, 2):
                found = period
        self._latest.appendleft(mark)
        return found

    @property
    def is_stalled(self) -> bool:
        """Whether nothing has been new for so long that nothing will be."""
        return self._stalled >= STALL


class PingPong:
    """Finds what comes again and again among the latest few, by hashes of k in a row.

    Example:
        >>> found = PingPong()
        >>> [found.see(agent) for agent in "ABABA"]
        [0, 0, 0, 1, 1]
    """

    def __init__(self) -> None:
        self._latest: deque[int] = deque(maxlen=max(_GRAM) * 2)

    def see(self, what: Hashable) -> int:
        """Add one; return how often the two to four last ones came right before, at most 1.

        Of one that only repeats itself nothing is said here: that is a repeat.
        """
        self._latest.append(hash(what))
        held = list(self._latest)
        for size in _GRAM:
            tail, before = held[-size:], held[-2 * size : -size]
            if tail == before and len(set(tail)) > 1:
                return 1
        return 0


class WaitFor:
    """Who waits for whom; a circle of them is a deadlock.

    Example:
        >>> waits = WaitFor()
        >>> waits.wait("a", "b"), waits.wait("b", "c"), waits.wait("c", "a")
        (False, False, True)
    """

    def __init__(self) -> None:
        self._edges: dict[str, dict[str, int]] = {}
        self._closing: set[tuple[str, str]] = set()

    @property
    def is_circle(self) -> bool:
        """Whether there is a circle now: an agent that was called back and has answered is none."""
        return bool(self._closing)

    def wait(self, who: str, whom: str) -> bool:
        """Note that one waits for another; return whether that closes a circle."""
        awaited = self._edges.setdefault(who, {})
        awaited[whom] = awaited.get(whom, 0) + 1
        is_circle = self._reaches(whom, who)
        if is_circle:
            self._closing.add((who, whom))
        return is_circle

    def done(self, who: str, whom: str) -> None:
        """Note that a wait is over."""
        awaited = self._edges.get(who, {})
        left = awaited.get(whom, 0) - 1
        if left > 0:
            awaited[whom] = left
        else:
            awaited.pop(whom, None)
            if not awaited:
                self._edges.pop(who, None)
        self._closing = {pair for pair in self._closing if self._waits(*pair)}

    def _waits(self, who: str, whom: str) -> bool:
        """Whether one waits for another in a circle still."""
        return whom in self._edges.get(who, ()) and self._reaches(whom, who)

    def _reaches(self, start: str, goal: str) -> bool:
        seen: set[str] = set()
        work = [start]
        while work:
            at = work.pop()
            if at == goal:
                return True
            if at not in seen:
                seen.add(at)
                work.extend(self._edges.get(at, ()))
        return False


def simhash(text: str) -> int:
    """Return a hash of 64 bits that is close for texts that share most of their words.

    After Charikar: each bit is what most of the words' hashes have there.

    Example:
        >>> simhash("the same words") == simhash("The same, words!")
        True
    """
    counts = [0] * SIMHASH_BITS
    for word in words(text):
        digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        for bit in range(SIMHASH_BITS):
            counts[bit] += 1 if digest >> bit & 1 else -1
    return sum(1 << bit for bit, count in enumerate(counts) if count > 0)


def is_near(one: int, other: int) -> bool:
    """Whether two such hashes are of near-duplicates."""
    return (one ^ other).bit_count() <= NEAR


def words(text: str) -> Iterable[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Novelty:
    """Says what share of a text had not been seen before, and whether it is nearly an old one.

    Example:
        >>> novelty = Novelty()
        >>> novelty.see("red green"), novelty.see("green blue")
        (1.0, 0.5)
    """

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        self._texts: deque[int] = deque(maxlen=_TEXTS)
        self.is_duplicate = False

    def see(self, text: str) -> float:
        """Add a text; return the share of its different words that are new, 0 of no words."""
        mark = simhash(text)
        self.is_duplicate = any(is_near(mark, one) for one in self._texts)
        self._texts.append(mark)
        found = {hash(word) for word in words(text)}
        fresh = [word for word in found if word not in self._words]
        for word in fresh:
            _remember(self._words, word, 1)
        return len(fresh) / len(found) if found else 0.0


def _remember(held: dict[int, int], key: int, value: int) -> None:
    """Keep the newest, so that nothing grows with the length of a run."""
    held.pop(key, None)
    held[key] = value
    if len(held) > _REMEMBERED:
        del held[next(iter(held))]
