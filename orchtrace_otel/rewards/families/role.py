"""R3: rewards of roles, from trees of samples and from a planner to its workers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Names of samples from the first role's on, such as `("plan 1", "check 2", "fix 1")`."""

_GOOD: Final = 0.5


def tree_values(leaves: Mapping[Path, float]) -> dict[Path, float]:
    """Return the value of every sample: a leaf's own, else the mean over its children.

    The credit of MALT (arXiv 2412.01928): each role samples several continuations of one
    prefix, and leaves are graded 0 or 1.

    Args:
        leaves: Path of each graded sample to its grade. No leaf lies on the way to another.

    Raises:
        ValueError: If a leaf has samples below it, or a path is empty.

    Example:
        >>> grades = {"a1": 1, "a2": 1, "b1": 1, "b2": 0}
        >>> leaves = {("g", *name): grade for name, grade in grades.items()}
        >>> values = tree_values(leaves)
        >>> values["g", "a"], values["g", "b"], values["g",]
        (1.0, 0.5, 0.75)
    """
    values: dict[Path, float] = {path: float(grade) for path, grade in leaves.items()}
    below: defaultdict[int, defaultdict[Path, set[Path]]] = defaultdict(lambda: defaultdict(set))
    for path in leaves:
        if not path:
            msg = "a path must name at least one sample, got ()"
            raise ValueError(msg)
        for depth in range(1, len(path)):
            below[depth][path[:depth]].add(path[: depth + 1])
    for depth in sorted(below, reverse=True):
        for parent, children in below[depth].items():
            if parent in leaves:
                msg = f"a graded sample must have none below it, got {parent!r} with {children!r}"
                raise ValueError(msg)
            values[parent] = math.fsum(values[child] for child in children) / len(children)
    return values


class Contrast(NamedTuple):
    """Two samples of one role under one prefix: the better one, and the worse."""

    chosen: Path
    rejected: Path


def contrasts(values: Mapping[Path, float], threshold: float = _GOOD) -> list[Contrast]:
    """Return pairs of siblings, one above the threshold and one not: MALT's preferences.

    A prefix with one sample only has no contrast, and gives none.

    Example:
        >>> contrasts({("g", "a"): 1.0, ("g", "b"): 0.5, ("g",): 0.75})
        [Contrast(chosen=('g', 'a'), rejected=('g', 'b'))]
    """
    siblings: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in sorted(values):
        siblings[path[:-1]].append(path)
    return [
        Contrast(good, bad)
        for group in siblings.values()
        for good in group
        for bad in group
        if values[good] > threshold >= values[bad]
    ]


def planner_reward(accuracy: float, tool_format: float, format_weight: float = 0.1) -> float:
    """Return 0.9 accuracy + 0.1 format of tool calls: MATPO (arXiv 2510.04678) as coded.

    Example:
        >>> planner_reward(1, 0)
        0.9
    """
    return (1 - format_weight) * accuracy + format_weight * tool_format


def inherited(advantages: Mapping[str, float], parents: Mapping[str, str]) -> dict[str, float]:
    """Return each worker's advantage: that of the planner whose rollout it is part of.

    MATPO: so a useless worker in a run that won is praised; workers whose planner has no
    advantage are left out.

    Example:
        >>> inherited({"p": 0.5}, {"w1": "p", "w2": "q"})
        {'w1': 0.5}
    """
    return {
        worker: advantages[planner] for worker, planner in parents.items() if planner in advantages
    }


def sub_agent_reward(format_score: float, *, main_is_right: bool) -> float:
    """Return a sub-agent's reward in M-GRPO (arXiv 2511.13288) as released, 0 to 1.

    A bad format gives 0, a main agent that was wrong a tenth of the format's score, one that
    was right 1.

    Example:
        >>> sub_agent_reward(0, main_is_right=True), sub_agent_reward(1, main_is_right=False)
        (0.0, 0.1)
    """
    if format_score <= 0:
        return 0.0
    return 1.0 if main_is_right else 0.1 * format_score


class Aligned(NamedTuple):
    """Sub-agents' rollouts of one run, brought to the count that a batch needs.

    Attributes:
        rollouts: Which rollouts stand in the batch, some twice or not at all.
        n_subs: How many there were: alignment changes weights, so this is kept.
    """

    rollouts: tuple[str, ...]
    n_subs: int


def aligned(rollouts: Sequence[str], count: int) -> Aligned:
    """Bring rollouts to a fixed count by repeating them in turn, or by leaving out the last.

    M-GRPO draws at random which to repeat or drop; in turn is the same in every process.

    Raises:
        ValueError: If `count` is below 0.

    Example:
        >>> aligned(["a", "b"], 3)
        Aligned(rollouts=('a', 'b', 'a'), n_subs=2)
    """
    if count < 0:
        msg = f"count must be at least 0, got {count}"
        raise ValueError(msg)
    held = len(rollouts)
    taken = (rollouts[at % held] for at in range(count)) if held else ()
    return Aligned(tuple(taken), held)
