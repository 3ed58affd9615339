"""What decides the outcome of a played run, and so what is true about it.

Every activation either gets its piece of work right or wrong. How likely it gets it
right depends on what reached it: each link from another activation, by a message or by
handing on a result, adds `gain` where the other was right and takes `harm` where it
was wrong. The answer's quality, from 0 to 1, is such a sum too. A filler message is a
link that adds and takes nothing.

A replay runs everything downstream of the touched players anew, upstream stays as it
was recorded. An activation that reads the same as before, under the same seed, does the
same; one that reads anything else throws its dice anew, as a model would.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.players import Part, Slot
from orchtrace_otel.testing.world._chance import unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchtrace_otel.replay.players import Player

LEAST, MOST = 0.02, 0.98
"""No piece of work is sure to be right or wrong, but for that of a broken agent."""

NOTHING: Final = Change()


@dataclass(slots=True)
class Link:
    """One way into an activation.

    Attributes:
        source: Activation it comes from.
        gain: What it adds where the source was right.
        harm: What it takes where the source was wrong.
        slot: The message it is; None where a result is handed on.
    """

    source: str
    gain: float
    harm: float = 0.0
    slot: Slot | None = None


@dataclass(slots=True)
class Node:
    """An activation as the mechanism sees it.

    Attributes:
        name: Its span id.
        agent: Whose it is.
        role: The agent's role, if it has one.
        base: How likely it is right with nothing reaching it.
        links: What reaches it.
        is_broken: Whether it is always wrong: the planted fault.
    """

    name: str
    agent: str
    role: str | None
    base: float
    links: list[Link] = field(default_factory=list[Link])
    is_broken: bool = False


Right = dict[str, bool | None]
"""Activation to whether it was right; None where it did not take place."""


class Mechanism:
    """The nodes of one run, causes first, the answer last."""

    def __init__(self, identity: tuple[object, ...]) -> None:
        self._identity = identity
        self.nodes: list[Node] = []
        self.recorded: Right = {}

    def record(self) -> float:
        """Play the run as it is recorded, and return the quality of its answer."""
        self.recorded = self._play(NOTHING, "recorded", {})
        return self._quality(NOTHING, self.recorded)

    def play(self, change: Change, seed: object) -> float:
        """Return the quality of the answer of one replay."""
        return self._quality(change, self._play(change, seed, self._frozen(change)))

    def expect(self, change: Change) -> float:
        """Return the mean quality over all replays, exactly: the truth."""
        frozen = self._frozen(change)
        ways = self._all(change, frozen)
        return math.fsum(weight * self._quality(change, right) for right, weight in ways)

    def _frozen(self, change: Change) -> Right:
        """What a replay takes over from the record: all that is not downstream of a change."""
        moved: set[str] = set()
        for node in self.nodes[:-1]:
            if _is_touched(node, change) or any(link.source in moved for link in node.links):
                moved.add(node.name)
        return {name: right for name, right in self.recorded.items() if name not in moved}

    def _play(self, change: Change, seed: object, frozen: Right) -> Right:
        right: Right = {}
        for node in self.nodes[:-1]:
            if node.name in frozen:
                right[node.name] = frozen[node.name]
                continue
            chance = _chance_of(node, change, right)
            if chance is None:
                right[node.name] = None
                continue
            read = tuple(_read(node, change, right))
            right[node.name] = unit(self._identity, seed, node.name, read) < chance
        return right

    def _all(self, change: Change, frozen: Right) -> Iterator[tuple[Right, float]]:
        """Every way the run could go, as far as the answer reads it, with its probability."""
        last = {link.source: at for at, node in enumerate(self.nodes) for link in node.links}
        ways: dict[tuple[tuple[str, bool | None], ...], float] = {(): 1.0}
        for at, node in enumerate(self.nodes[:-1]):
            grown: defaultdict[tuple[tuple[str, bool | None], ...], float] = defaultdict(float)
            for way, weight in ways.items():
                # What nobody reads any more is forgotten, so that ways become one again.
                kept = tuple(item for item in way if last[item[0]] > at)
                for value, share in _outcomes(node, change, dict(way), frozen):
                    if share:
                        read = ((node.name, value),) if last.get(node.name, -1) > at else ()
                        grown[kept + read] += weight * share
            ways = grown
        for way, weight in ways.items():
            yield dict(way), weight

    def _quality(self, change: Change, right: Right) -> float:
        """The answer's quality given who was right."""
        answer = self.nodes[-1]
        total = answer.base + sum(effect for _, effect in _read(answer, change, right))
        return min(max(total, 0.0), 1.0)


def _outcomes(
    node: Node, change: Change, right: Right, frozen: Right
) -> list[tuple[bool | None, float]]:
    if node.name in frozen:
        return [(frozen[node.name], 1.0)]
    chance = _chance_of(node, change, right)
    return [(None, 1.0)] if chance is None else [(True, chance), (False, 1.0 - chance)]


def _chance_of(node: Node, change: Change, right: Right) -> float | None:
    """How likely a node is right given what reaches it; None where it does not take place."""
    if _parts(node) & change.without:
        return None
    if node.is_broken:
        return 0.0
    skill = _edited(change.edits, Part("capacity", node.agent), 0.0)
    total = node.base + skill + sum(effect for _, effect in _read(node, change, right))
    return min(max(total, LEAST), MOST)


def _read(node: Node, change: Change, right: Right) -> Iterator[tuple[str, float]]:
    """What reaches a node: from where, and how much it adds."""
    for link in node.links:
        value = right[link.source]
        if value is None or link.slot in change.without:
            continue
        if Part("dependency", f"{link.source}>{node.name}") in change.without:
            continue
        scale = 1.0 if link.slot is None else _edited(change.edits, link.slot, 1.0)
        yield link.source, scale * (link.gain if value else -link.harm)


def _is_touched(node: Node, change: Change) -> bool:
    touched = change.touched
    slots = {link.slot for link in node.links if link.slot is not None}
    dependencies = {Part("dependency", f"{link.source}>{node.name}") for link in node.links}
    return not touched.isdisjoint(_parts(node) | slots | dependencies)


def _parts(node: Node) -> set[Player]:
    parts: set[Player] = {Part("agent", node.agent), Part("capacity", node.agent)}
    if node.role is not None:
        parts.add(Part("role", node.role))
    return parts


def _edited(edits: Mapping[Player, object], player: Player, otherwise: float) -> float:
    value = edits.get(player, otherwise)
    return float(value) if isinstance(value, int | float) else otherwise
