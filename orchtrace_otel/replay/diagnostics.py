"""Whether C3's credit can be trusted: its variance, its fidelity, and whether messages matter.

The three diagnostics of C3 (arXiv 2603.06859), of what `method="alternatives"` found. A
context is one message with all else frozen; its alternatives are what was really sent
and what may stand in its place.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, NamedTuple

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay.ranking import spearman

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from orchtrace_otel.replay.effects import Counterfactual, Effect
    from orchtrace_otel.replay.players import Player

_ENOUGH = 2
"""Values below which there is nothing to compare."""


class Influence(NamedTuple):
    """How much the next action depends on which message was sent.

    Attributes:
        nats: Mutual information of alternative and next action given the context, in nats:
            0 where the receiver does the same whatever it reads.
        by_chance: What about that number would be without any influence, to the first
            order: few replays look like influence.
        n: Replays that it rests on.
    """

    nats: float
    by_chance: float
    n: int


def credit_variance(found: Counterfactual) -> float | None:
    """Return the variance of credit within a context, as a mean over contexts.

    Population variance of the advantages A_j of a context's alternatives. Most of it is
    noise where the means differ by little: more replays make it smaller.

    Args:
        found: What `counterfactual(..., method="alternatives")` gave.

    Returns:
        A number from 0 on; None where no context has two alternatives with a value.

    Raises:
        ConfigError: If it was found by another method.
    """
    contexts = _contexts(found)
    spread = [pvariance([_value(effect) for effect in effects]) for effects in contexts.values()]
    return fmean(spread) if spread else None


def fidelity(found: Counterfactual, again: Counterfactual) -> float | None:
    """Return how well credit ranks alternatives as independent replays do.

    Spearman's correlation of the advantages A_j with Delta V_j = R_j - V(h) of another set
    of replays, over all alternatives of all contexts.

    Args:
        found: What `counterfactual(..., method="alternatives")` gave.
        again: The same question with other seeds (`seed=`); on the same seeds it would be
            compared with itself.

    Returns:
        A number from -1 to 1; None where fewer than two alternatives have both numbers, or
        where all of either are equal.

    Raises:
        ConfigError: If either was found by another method.
    """
    gains = {_key(effect): gain for effect, gain in _gains(again)}
    pairs = [
        (_value(effect), gains[_key(effect)])
        for effects in _contexts(found).values()
        for effect in effects
        if _key(effect) in gains
    ]
    sides = [[pair[at] for pair in pairs] for at in (0, 1)]
    if any(len(set(side)) < _ENOUGH for side in sides):
        return None
    return spearman(*sides)


def influence(
    actions: Mapping[Hashable, Iterable[tuple[Hashable, Hashable]]],
) -> Influence | None:
    """Return how much what is done next depends on the alternative, given the context.

    Conditional mutual information, from counts: of each context the sum over alternatives
    m and actions a of p(m, a) log(p(m, a) / (p(m) p(a))), weighted by its replays.

    Args:
        actions: For each context one pair a replay, of the alternative and of what the
            receiver did next: anything that is equal where it did the same, such as the
            tool that it called. A replay function can note it down, for it knows
            `change.edits`.

    Returns:
        None without any replay.

    Example:
        >>> obeys = [("go", "walk"), ("stay", "sit")] * 10
        >>> found = influence({"the order": obeys})
        >>> round(found.nats, 4), found.by_chance, found.n
        (0.6931, 0.025, 20)
    """
    tables = [Counter(pairs) for pairs in actions.values()]
    total = sum(table.total() for table in tables)
    if not total:
        return None
    nats = math.fsum(_shared(table) for table in tables) / total
    free = sum(_freedom(table) for table in tables)
    return Influence(max(nats, 0.0), free / (2 * total), total)


def _shared(table: Counter[tuple[Hashable, Hashable]]) -> float:
    """Mutual information of a table of counts, times its total."""
    total = table.total()
    rows, columns = _margins(table)
    return math.fsum(
        count * math.log(count * total / (rows[row] * columns[column]))
        for (row, column), count in table.items()
    )


def _freedom(table: Counter[tuple[Hashable, Hashable]]) -> int:
    rows, columns = _margins(table)
    return max(len(rows) - 1, 0) * max(len(columns) - 1, 0)


def _margins(
    table: Counter[tuple[Hashable, Hashable]],
) -> tuple[Counter[Hashable], Counter[Hashable]]:
    rows: Counter[Hashable] = Counter()
    columns: Counter[Hashable] = Counter()
    for (row, column), count in table.items():
        rows[row] += count
        columns[column] += count
    return rows, columns


def _contexts(found: Counterfactual) -> Mapping[Player, list[Effect]]:
    """Return the alternatives that have a number, by the message that they stand for.

    Of a message of which one alone has, nothing is known: its advantage is 0 by definition.
    """
    if found.method != "alternatives":
        msg = (
            "diagnostics must be of alternatives to a message, got method="
            f"{found.method!r}; use counterfactual(..., method='alternatives')"
        )
        raise ConfigError(msg)
    contexts: defaultdict[Player, list[Effect]] = defaultdict(list)
    for effect in found.effects:
        if effect.value is not None:
            contexts[effect.player].append(effect)
    return {player: known for player, known in contexts.items() if len(known) >= _ENOUGH}


def _gains(found: Counterfactual) -> Iterable[tuple[Effect, float]]:
    """Each alternative with R_j - V(h), which its advantage over the others tells.

    V(h) is the mean over all replays of the context, the alternative's own among them.
    """
    for effects in _contexts(found).values():
        total = sum(effect.estimate.n for effect in effects)
        for effect in effects:
            yield effect, _value(effect) * (total - effect.estimate.n) / total


def _key(effect: Effect) -> tuple[Player, str]:
    """An alternative by what it says: values need not be hashable."""
    return effect.player, repr(effect.alternative)


def _value(effect: Effect) -> float:
    return 0.0 if effect.value is None else effect.value
