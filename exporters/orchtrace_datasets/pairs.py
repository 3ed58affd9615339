"""Preference pairs of calls: one task, one state, two answers, and a margin between them.

The state is what the policy saw: the whole prompt with its tools, and the agent's role.
Two answers that differ in length or cost as much as in reward teach length or cost;
such pairs are `confounded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from orchtrace_otel.datasets import Call, Dropped, Group, Outcome, Record
from orchtrace_otel.errors import ConfigError

SETTINGS: Final[Mapping[str, str]] = {
    "pairs": "`matched` (the best with the worst, then inwards: a call is in one pair at most) or "
    "`all`; default `matched`",
    "length_ratio": "how many times as long one completion may be as the other, 0 for any; "
    "default 2",
    "cost_ratio": "the same for the tokens of the call, read and written; default 0",
}


class Pair(NamedTuple):
    """Two calls of one state; `margin` is how much better the first is labelled."""

    chosen: Call
    rejected: Call
    margin: float


@dataclass(frozen=True, slots=True)
class Guards:
    """How much the two of a pair may differ in what is not their quality.

    Attributes:
        length: Greatest ratio of the lengths of their completions; 0 for any.
        cost: Greatest ratio of their tokens; 0 for any.

    Raises:
        ConfigError: If one is neither 0 nor at least 1.
    """

    length: float
    cost: float

    def __post_init__(self) -> None:
        for name in ("length", "cost"):
            ratio = getattr(self, name)
            if ratio != 0 and not ratio >= 1:
                msg = f"{name}_ratio must be at least 1, or 0 for any, got {ratio!r}"
                raise ConfigError(msg)

    def is_confounded(self, one: Call, other: Call) -> bool:
        """Whether two calls differ too much in length or cost."""
        return _differ(_length(one), _length(other), self.length) or _differ(
            one.row.get("cost"), other.row.get("cost"), self.cost
        )


def _differ(one: float | None, other: float | None, most: float) -> bool:
    if not most or one is None or other is None:
        return False
    small, large = sorted((one, other))
    return large > most * max(small, 1)


def _length(call: Call) -> int:
    return len(orjson.dumps(call.completion))


def state_of(call: Call) -> bytes:
    """Return what the call's policy saw, and which part it played, as bytes to compare."""
    return orjson.dumps([call.role or call.agent, _numbered(call.prompt), call.tools])


def answer_of(call: Call) -> bytes:
    """Return what a call's policy wrote, as bytes to compare."""
    return as_bytes(call.completion)


def as_bytes(said: Iterable[Mapping[str, Any]]) -> bytes:
    """Return messages as bytes to compare; ids of calls of tools tell none apart."""
    return orjson.dumps(_numbered(said))


def _numbered(said: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Number the calls of tools: servers make up another id for each, whatever is called."""
    numbers: dict[str | None, int] = {}
    return [_with_numbers(one, numbers) for one in said]


def _with_numbers(said: Mapping[str, Any], numbers: dict[str | None, int]) -> Mapping[str, Any]:
    calls: list[dict[str, Any]] = said.get("tool_calls") or []
    if calls:
        asked = [{**one, "id": numbers.setdefault(one.get("id"), len(numbers))} for one in calls]
        return {**said, "tool_calls": asked}
    if said["role"] == "tool":
        answered = said.get("tool_call_id")
        return {**said, "tool_call_id": numbers.setdefault(answered, len(numbers))}
    return said


def by_state(calls: Iterable[Call]) -> dict[bytes, list[Call]]:
    """Return calls by what their policy saw, in order."""
    states: dict[bytes, list[Call]] = {}
    for call in calls:
        states.setdefault(state_of(call), []).append(call)
    return states


def of_answers(
    calls: Sequence[Call], data: Mapping[str, Any], label: float | None = None
) -> Record:
    """Make a record of all answers to one prompt; a run counts once, however often it answered."""
    runs = {call.run.id: call.run for call in calls}
    is_labelled = any(call.label.value is not None for call in calls)
    return Record(
        data,
        [call.run.id for call in calls],
        [call.id for call in calls],
        sum(run.weight for run in runs.values()),
        None if is_labelled else calls[0].label.missing,
        label,
        str(calls[0].row["task_id"]),
    )


def pairs(group: Group, answer: Callable[[Call], bytes] = answer_of) -> Iterator[Pair | Dropped]:
    """Pair the calls of one task; a call that is in no pair is dropped with its reason.

    Calls need labels. Pairs have at least the job's margin, and more than nothing.

    Args:
        group: The calls.
        answer: What of a call's answer a record will say; pairs differ in it.
    """
    guards = Guards(group.job.number("length_ratio", 2), group.job.number("cost_ratio", 0))
    how = group.job.choice("pairs", ("matched", "all"))
    for calls in by_state(group.calls).values():
        yield from _of_state(calls, guards, how, group.job.margin, answer)


def _of_state(
    calls: list[Call],
    guards: Guards,
    how: str,
    least: float,
    answer: Callable[[Call], bytes],
) -> Iterator[Pair | Dropped]:
    ranked = sorted(calls, key=lambda call: (-_value(call), call.run.id, call.id))
    used: set[int] = set()
    confounded: set[int] = set()
    for chosen, rejected in _candidates(ranked, how):
        margin = _value(chosen) - _value(rejected)
        if margin <= 0 or margin < least or answer(chosen) == answer(rejected):
            continue
        both = {id(chosen), id(rejected)}
        if guards.is_confounded(chosen, rejected):
            confounded |= both
            continue
        used |= both
        yield Pair(chosen, rejected, margin)
    for call in calls:
        if id(call) not in used:
            yield Dropped(_why_not(call, calls, confounded), call.run.id, call.id)


def _why_not(call: Call, calls: list[Call], confounded: set[int]) -> str:
    if len(calls) == 1:
        return "one_sample"
    return "confounded" if id(call) in confounded else "no_margin"


def _candidates(ranked: list[Call], how: str) -> Iterator[tuple[Call, Call]]:
    if how == "all":
        for place, better in enumerate(ranked):
            for worse in ranked[place + 1 :]:
                yield better, worse
        return
    for place in range(len(ranked) // 2):
        yield ranked[place], ranked[-1 - place]


def _value(call: Call) -> float:
    return call.label.value or 0.0


def of_pair(pair: Pair, data: Mapping[str, Any]) -> Record:
    """Make a record of a pair; its label is the margin, its weight that of the chosen run."""
    chosen, rejected = pair.chosen, pair.rejected
    ours = {
        "margin": pair.margin,
        "agent": chosen.agent,
        "chosen_turn_id": chosen.id,
        "rejected_turn_id": rejected.id,
        "rejected_run_id": rejected.run.id,
    }
    return Record(
        {**data, **ours},
        (chosen.run.id, rejected.run.id),
        (chosen.id, rejected.id),
        chosen.run.weight,
        label=pair.margin,
        group=str(chosen.row["task_id"]),
    )


def records_of(found: Iterator[Pair | Dropped], data: Any) -> Iterator[Outcome]:
    """Turn pairs into records; `data` makes the format's columns of a pair."""
    for one in found:
        yield one if isinstance(one, Dropped) else of_pair(one, data(one))
