"""Which assignments lead into which: a bit for each, carried along the edges once."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import Assignments, assignments, lasting
from orchtrace_otel.rewards.others import stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

MOST: Final = 64
"""Assignments beyond which pairs are not compared inline: their number grows by the square."""


class Pairs(NamedTuple):
    """Pairs of assignments under one parent.

    Attributes:
        all: How many there are.
        connected: How many have a path from inside of one into the other.
    """

    all: int
    connected: int


def sibling_pairs(facts: Facts) -> Pairs | None:
    """Compare all assignments that lie beside each other; ask it through `Facts.share`.

    A path is one of causes, as a message, a result that was passed on, or one's end that
    let the other begin. None on cycles, and with more than `MOST` assignments.
    """
    if facts.share(stretches):
        return _pairs_of_others(facts)
    found = facts.share(assignments)
    siblings: defaultdict[str | None, dict[int, tuple[int, int]]] = defaultdict(dict)
    for number, start, end in facts.share(lasting):
        siblings[found.parents[number]][number] = (start, end)
    groups = [group for group in siblings.values() if len(group) > 1]
    if not groups:
        return Pairs(0, 0)
    if not facts.is_causal or len(found.places) > MOST:
        return None
    pairs = sum([len(group) * (len(group) - 1) // 2 for group in groups])
    if all(_in_turn(group, found, facts.graph.causes) for group in groups):
        return Pairs(pairs, pairs)
    opened = {at: 1 << number for number, at in enumerate(found.opened) if at is not None}
    reached = _carry(facts, opened)
    ends = [0 if closed is None else reached[closed] for closed in found.closed]
    return Pairs(pairs, sum([_connected(group, ends, facts) for group in groups]))


def _pairs_of_others(facts: Facts) -> Pairs | None:
    """The same where an assignment is all that its agent did because of it.

    It depends on another where that led to anything of it, or to its being given.
    """
    events = facts.events
    siblings: defaultdict[str, list[tuple[int, Sequence[int]]]] = defaultdict(list)
    for place, stretch in facts.share(stretches).items():
        if stretch.places:
            siblings[events[place].agent].append((place, stretch.places))
    groups = [group for group in siblings.values() if len(group) > 1]
    if not groups:
        return Pairs(0, 0)
    if not facts.is_causal or sum(map(len, groups)) > MOST:
        return None
    listed = [one for group in groups for one in group]
    reached = _carry(
        facts, {at: 1 << number for number, (_, done) in enumerate(listed) for at in done}
    )
    before = {place: _joined([reached[at] for at in (place, *done)]) for place, done in listed}
    bit = {place: 1 << number for number, (place, _) in enumerate(listed)}
    pairs = [
        before[one] & bit[other] or before[other] & bit[one]
        for group in groups
        for (one, _), (other, _) in combinations(group, 2)
    ]
    return Pairs(len(pairs), sum(map(bool, pairs)))


def _joined(bits: Iterable[int]) -> int:
    joined = 0
    for some in bits:
        joined |= some
    return joined


def _in_turn(
    group: Iterable[int], found: Assignments, causes: Sequence[Collection[int | None]]
) -> bool:
    """Whether each began because the one before had ended; it then leads into all that follow."""
    before: int | None = None
    for number in group:
        opening, closing = found.opened[number], found.closed[number]
        if opening is None or closing is None or opening not in causes[closing]:
            return False
        if before is not None and before not in causes[opening]:
            return False
        before = closing
    return True


def _carry(facts: Facts, bits: Mapping[int, int]) -> Sequence[int]:
    """For each event the bits of all events that lead to it, its own included."""
    causes = facts.graph.causes
    reached = [0] * len(causes)
    for place, bit in bits.items():
        reached[place] = bit
    for place in facts.graph.order:
        held = reached[place]
        for cause in causes[place]:
            held |= reached[cause]
        reached[place] = held
    return reached


def _connected(group: Mapping[int, tuple[int, int]], ends: Sequence[int], facts: Facts) -> int:
    mask = sum([1 << number for number in group])
    before = {number: ends[number] & (mask ^ 1 << number) for number in group}
    count = sum([bits.bit_count() for bits in before.values()])
    # Only what goes on at once can lead into each other; such a pair was counted twice.
    is_serial = facts.is_timed and not _touch(group.values())
    return count if is_serial else count - _mutual(before)


def _touch(spans: Iterable[tuple[int, int]]) -> bool:
    """Whether one begins before, or just when, another is over."""
    return any(later[0] <= earlier[1] for earlier, later in pairwise(sorted(spans)))


def _mutual(before: Mapping[int, int]) -> int:
    twice = 0
    for number, bits in before.items():
        left = bits
        while left:
            lowest = left & -left
            twice += before[lowest.bit_length() - 1] >> number & 1
            left -= lowest
    return twice // 2
