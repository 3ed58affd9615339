"""How a task was split (O1, O2): what the parts cover, twice or apart."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import briefs
from orchtrace_otel.rewards.families.orchestration.lineage import sibling_pairs
from orchtrace_otel.rewards.similarity import Similarity, by_words

_ALIKE = 0.9


class Split(NamedTuple):
    """The components of a split's reward, each 0 to 1; None where they are unknown.

    Attributes:
        coverage: Share of the requirements that any part covers.
        overlap: Share of what is covered more than once.
        independence: Share of pairs of parts without a path between them.
        reward: coverage * (1 - overlap) * independence ** eta; None without coverage.
    """

    coverage: float | None
    overlap: float | None
    independence: float | None
    reward: float | None


def split(
    required: Collection[Hashable] | None,
    covers: Sequence[Collection[Hashable]],
    independence: float | None = None,
    eta: float = 1.0,
) -> Split:
    """Grade a split into parts, formula sheet section 3.

    Args:
        required: Everything that the task asks for; None or empty where nobody says.
        covers: What each part covers; only parts that came back, for what was delivered.
        independence: As of `independence` for the trace; left out of the reward where None.
        eta: How much independence counts.

    Example:
        >>> whole = split({1, 2, 3, 4}, [{1, 2}, {2, 3}, {4}])
        >>> whole.coverage, round(whole.overlap, 4), round(whole.reward, 4)
        (1.0, 0.2, 0.8)
        >>> split({1, 2, 3, 4}, [{1, 2}, {2, 3}]).coverage
        0.75
    """
    sets = [frozenset(cover) for cover in covers]
    union = frozenset[Hashable]().union(*sets)
    listed = sum(map(len, sets))
    overlap = 1 - len(union) / listed if listed else None
    wanted = frozenset(required or ())
    if not wanted:
        return Split(None, overlap, independence, None)
    coverage = len(union & wanted) / len(wanted)
    apart = 1.0 if independence is None else independence**eta
    return Split(coverage, overlap, independence, coverage * (1 - (overlap or 0.0)) * apart)


def overlap_of_briefs(
    briefs: Sequence[str], similarity: Similarity = by_words, alike: float = _ALIKE
) -> float | None:
    """Return the share of briefs that say what another one says, 0 to 1; None without any.

    Briefs that are more alike than `alike`, also by way of others, are one. Stands in for
    the overlap of a split where nobody says what its parts cover.

    Example:
        >>> overlap_of_briefs(["find trains", "find trains", "find hotels", "write it up"])
        0.25
    """
    if not briefs:
        return None
    names = list(range(len(briefs)))
    for one, brief in enumerate(briefs):
        for other in range(one):
            if names[one] != names[other] and similarity(brief, briefs[other]) > alike:
                old, new = names[one], names[other]
                names = [new if name == old else name for name in names]
    return 1 - len(set(names)) / len(briefs)


@component(family="R7", unit="orchestrator", range=(0, 1), inputs=("spawn", "delegate", "edges"))
def independence(facts: Facts) -> float | None:
    """Share of pairs of assignments beside each other without a path between them.

    Absent without such pairs, on cycles, and with more than 64 assignments.
    """
    pairs = facts.share(sibling_pairs)
    if pairs is None or not pairs.all:
        return None
    return (pairs.all - pairs.connected) / pairs.all


@component(family="R7", range=(0, 1), inputs=("content_ref",), is_metric=True)
def overlap(facts: Facts) -> float | None:
    """Share of assignments whose brief is word for word that of another.

    Absent without assignments, and where the content of one is not captured.
    """
    found = facts.share(briefs)
    if not found or None in found:
        return None
    return 1 - len(set(found)) / len(found)
