"""Which of a call's tokens a format may show a trainer: the policy's own, or none.

A trainer takes the ids of a rollout for what the policy sampled. Ids that are not exact
are left out, or were asked for with `--retokenised`; they are never made here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from orchtrace_otel.datasets import Call, Dropped, Group, Job, Need

SETTINGS: Final[Mapping[str, str]] = {
    "tokens": "`exact`: calls without exact token ids are left out; `optional`: they stay, as "
    "texts; default `exact`",
}
_CHOICES: Final = ("exact", "optional")


class Sampled(NamedTuple):
    """The tokens of one call.

    Attributes:
        prompt_ids: What the policy read.
        ids: What it wrote.
        mask: 1 for each of `ids` that it sampled, 0 where it was forced.
        logprobs: Of each of `ids`; empty where the server gave none.
    """

    prompt_ids: list[int]
    ids: list[int]
    mask: list[int]
    logprobs: list[float]


def spared(job: Job) -> frozenset[Need]:
    """Return what need not be there, for the setting `tokens` asks for texts alone.

    Raises:
        ConfigError: If it is neither `exact` nor `optional`.
    """
    is_optional = job.choice("tokens", _CHOICES) == "optional"
    return frozenset({Need.TOKENS, Need.LOGPROBS} if is_optional else ())


def sampled(call: Call, job: Job) -> Sampled | None:
    """Return a call's tokens; None where they are absent, or worth less than asked for."""
    told = call.tokens
    is_good = told.provenance == "exact" or (told.provenance == "retokenised" and job.retokenised)
    if not (is_good and told.ids and told.prompt_ids):
        return None
    mask = list(told.mask) or [1] * len(told.ids)
    logprobs = list(told.logprobs) if len(told.logprobs) == len(told.ids) else []
    return Sampled(list(told.prompt_ids), list(told.ids), mask, logprobs)


def leave_out_forced(group: Group) -> Iterator[Dropped]:
    """Leave out calls of which a server forced some tokens, where the format has no mask."""
    for run in group.runs:
        forced = {call.id for call in run.chosen if 0 in call.tokens.mask}
        run.chosen = [call for call in run.chosen if call.id not in forced]
        yield from (Dropped("unwritable", run.id, turn) for turn in sorted(forced))


def number_of(version: str | None) -> int | None:
    """Return the number in a policy's version; None where there is none.

    Example:
        >>> number_of("step-400"), number_of("main"), number_of(None)
        (400, None, None)
    """
    found = re.search(r"\d+", version or "")
    return int(found[0]) if found else None


def version_span(calls: Iterable[Call]) -> tuple[int, int] | None:
    """Return the oldest and the newest version, as numbers, of the policies that wrote calls."""
    told = [
        number
        for call in calls
        for version in (call.row.get("policy_version_min"), call.policy_version)
        if (number := number_of(version)) is not None
    ]
    return (min(told), max(told)) if told else None
