"""What LLM calls and their tokens get: the credit of the events that they led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from orchtrace_otel.model import is_text, items_of
from orchtrace_otel.rewards.credit.division import Division

if TYPE_CHECKING:
    from orchtrace_otel.model import Event, Trace
    from orchtrace_otel.rewards.credit.assigning import Credit


def by_turn(credit: Credit, method: str, trace: Trace) -> Division:
    """What each LLM call gets: the sum over the events that it led to.

    An event that several calls led to is split by their tokens, evenly where these are
    not known.
    """
    tokens = {turn.id: turn.tokens for turn in trace.turns}
    parts, whole = credit.shares[method]
    sums: dict[str, Fraction] = dict.fromkeys(tokens, Fraction(0))
    rest = 0
    for place, part in enumerate(parts):
        turns = _turns_of(credit.events[place])
        if not turns:
            rest += part
            continue
        for turn, share in zip(turns, split_by_tokens(turns, tokens), strict=True):
            sums[turn] = sums.get(turn, Fraction(0)) + part * share
    value = credit.outcome.value
    named = {turn: float(part / whole) * value for turn, part in sorted(sums.items())}
    return Division(named, rest / whole * value)


def _turns_of(event: Event) -> Sequence[str]:
    """Span ids of the LLM calls that led to an event; none where others keep something else."""
    turns = items_of(event, "turns")
    return cast("Sequence[str]", turns) if all(map(is_text, turns)) else ()


def split_by_tokens(turns: Sequence[str], tokens: Mapping[str, int | None]) -> list[Fraction]:
    """Return each call's share of an event that all led to: by tokens, else in equal parts.

    Example:
        >>> split_by_tokens(["a", "b"], {"a": 30, "b": 10})
        [Fraction(3, 4), Fraction(1, 4)]
    """
    counts = [tokens.get(turn) for turn in turns]
    known = [count for count in counts if count is not None]
    total = sum(known)
    if len(known) < len(counts) or not total:
        return [Fraction(1, len(turns))] * len(turns)
    return [Fraction(count, total) for count in known]


def by_token(credit: Credit, method: str, trace: Trace) -> Division:
    """What one written token of each LLM call gets: the call's credit in equal parts.

    Keyed by call; times the tokens that the call wrote this is its credit. A call whose
    written tokens are unknown or none is unassigned.
    """
    written = {turn.id: turn.output_tokens for turn in trace.turns}
    turns, rest = by_turn(credit, method, trace)
    found: dict[str, float] = {}
    for turn, number in turns.items():
        count = written.get(turn)
        if count:
            found[turn] = number / count
        else:
            rest += number
    return Division(found, rest)
