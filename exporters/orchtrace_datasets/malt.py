"""Labels of roles from a tree of samples: what each answer led to, on average (MALT).

Answers to one prompt are siblings. The value of an answer is the mean outcome of the
runs that went on from it, an outcome being 1 or 0 by a threshold on the run's reward; it
is good when its value is above a half (MALT, arXiv 2412.01928). A prompt with one answer
gives no contrast.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from orchtrace_datasets.pairs import answer_of, state_of
from orchtrace_otel.datasets import Call, Dropped, Group

_GOOD = 0.5


class Judged(NamedTuple):
    """An answer: the first call that gave it, its value in 0 to 1, and how many runs went on."""

    call: Call
    value: float
    runs: int

    @property
    def is_good(self) -> bool:
        """Whether what it led to was right more often than not."""
        return self.value > _GOOD


def judged(group: Group, threshold: float) -> Iterator[Judged | Dropped]:
    """Return each different answer of one task with its value.

    Calls whose run has no label, and equal answers to one prompt beyond the first, are
    dropped; the latter count in the value.
    """
    answers: dict[bytes, list[Call]] = {}
    for call in group.calls:
        if call.run.label.value is None:
            yield Dropped(call.run.label.missing or "no_reward", call.run.id, call.id)
            continue
        answer = state_of(call) + b"\0" + answer_of(call)
        answers.setdefault(answer, []).append(call)
    for calls in answers.values():
        outcomes = {call.run.id: float((call.run.label.value or 0) >= threshold) for call in calls}
        yield Judged(calls[0], fmean(outcomes.values()), len(outcomes))
        for call in calls[1:]:
            yield Dropped("duplicate", call.run.id, call.id)
