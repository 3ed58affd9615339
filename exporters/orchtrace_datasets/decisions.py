"""Decisions of the orchestration as steps of an episode: what was seen, done, earned; a run each.

What was seen are the features of the decision, and three that every decision has: its
place, the time and the tokens until then. The reward of a step is what the run earned
from it to the next, so that the sum is what it earned from its first step on. A run
that something from outside ended is truncated, any other is terminated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from orchtrace_otel.datasets import Dropped, Group, Need, Outcome, Record, Run, Writer

Json: TypeAlias = dict[str, Any]

_Kind: TypeAlias = Callable[[Json], tuple[str, set[str]]]
"""Says of a decision what was done, and what could have been done."""

SETTINGS: Final[Mapping[str, str]] = {
    "of": "`choices`, what was chosen among candidates, or `stops`, whether the run stopped where "
    "it could have; default `choices`",
    "propensity": "`needed`, or `any`: whether runs stay whose decisions do not say with which "
    "chance they were made; default `needed`",
}
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "of": ("choices", "stops"),
    "propensity": ("needed", "any"),
}
_OURS: Final = ("has:", "run.")
_CUT_OFF: Final = frozenset(
    {
        *("max_steps", "token_budget", "time_budget", "budget_exhausted"),
        *("paused", "handoff", "external", "cancelled", "consumer_closed"),
    }
)
"""Stops that are nothing the team decided."""


class OfDecisions(Writer):
    """A format of episodes, one record a run."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.RUN_LABEL})
    tables: ClassVar[tuple[str, ...]] = ("events", "rewards", "decisions")
    settings: ClassVar[Any] = SETTINGS
    is_open: ClassVar[bool] = False
    loses: ClassVar[tuple[str, ...]] = (
        "several deciders: an episode has one, and its infos tell which agent it was",
        "all rewards but the one that is asked for",
        "what was said",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return an episode for each run that has decisions of the kind that is asked for."""
        of, propensity = (group.job.choice(name, _VALUES[name]) for name in _VALUES)
        for run in group.runs:
            found = [row for row in _rows(run, of) if _is_wanted(row, of, group)]
            if not found:
                yield Dropped("no_decision", run.id)
            elif propensity == "needed" and not all(_chance(row) for row in found):
                yield Dropped("no_propensity", run.id)
            else:
                yield _record(run, found, _choice if of == "choices" else _stop)


def _is_wanted(row: Json, of: str, group: Group) -> bool:
    job = group.job
    if (job.agents and row.get("agent") not in job.agents) or (
        job.roles and row.get("role") not in job.roles
    ):
        return False
    if of == "choices":
        return bool(row.get("legal_actions") and row.get("chosen"))
    return True


def _rows(run: Run, of: str) -> list[Json]:
    """Return the decisions of a run; of stops those points alone where it could have stopped.

    What else was decided at such a point is no matter then: the run went on from each but the
    last. A stop right behind a point is that point again.
    """
    rows = run.rows.decisions
    if of == "choices":
        return rows
    points = [row for row in rows if "decision_point" in row or "features" in row]
    events = {row["id"]: row for row in run.rows.events}
    chances = [_stop_probability(events[row["id"]]) for row in points]
    if len(points) > 1:
        before, last = (events[row["id"]] for row in points[-2:])
        if _is_again(last, before):
            points.pop()
            chance = chances.pop()
            chances[-1] = chance if chances[-1] is None else chances[-1]
    found: list[Json] = []
    for row, chance in zip(points, chances, strict=True):
        is_last = row is points[-1]
        rest = {key: value for key, value in row.items() if key != "behavior_prob"}
        if chance is not None:
            rest["behavior_prob"] = chance if is_last else 1 - chance
        found.append({**rest, "action": "stop" if is_last else "continue"})
    return found


def _is_again(stop: Json, before: Json) -> bool:
    """Whether a stop right behind a point is that point again, as `stop fit` has it."""
    said = stop.get("verb"), stop.get("decision")
    if "stop" not in said and "stop_reason" not in stop:
        return False
    # Others, who know no activations, may list the points alone; with them time tells.
    is_next = "activation" in stop and stop["index"] == before["index"] + 1
    return is_next or bool(stop["t"] == before["t"])


def _stop_probability(event: Json) -> float | None:
    chance = event.get("extra", {}).get("stop_probability")
    return chance if _is_number(chance) else None


def _chance(row: Json) -> float | None:
    chance = row.get("behavior_prob")
    return chance if isinstance(chance, int | float) and 0 < chance <= 1 else None


def _record(run: Run, rows: list[Json], kind: _Kind) -> Record:
    to_go = [row.get("reward_to_go", {}).get(run.label.component, 0.0) for row in rows]
    spent = _spent(run)
    cut_off = run.row.get("stop_reason") in _CUT_OFF
    last = rows[-1]
    data = {
        "run_id": run.id,
        "task_id": run.row["task_id"],
        "weight": run.weight,
        "steps": [
            _step(row, kind, place, spent, earned)
            for place, (row, earned) in enumerate(zip(rows, _differences(to_go), strict=True))
        ],
        "end": {
            **_features(last),
            "run.step": float(len(rows)),
            "run.seconds": float(last["t"]) + float(last.get("seconds_to_go", 0.0)),
            "run.tokens": spent,
        },
        "terminated": not cut_off,
        "truncated": cut_off,
    }
    task = str(run.row["task_id"])
    return Record(data, (run.id,), (), run.weight, label=run.label.value, group=task)


def _differences(to_go: list[float]) -> list[float]:
    """Return what was earned at each step, of what was still to be earned from it on."""
    return [here - after for here, after in zip(to_go, [*to_go[1:], 0.0], strict=True)]


def _spent(run: Run) -> float:
    """Return all tokens of a run."""
    return float(sum(row.get("tokens") or 0 for row in run.rows.events))


def _step(row: Json, kind: _Kind, place: int, spent: float, earned: float) -> Json:
    action, legal = kind(row)
    return {
        "id": row["id"],
        "seen": {
            **_features(row),
            "run.step": float(place),
            "run.seconds": float(row["t"]),
            "run.tokens": spent - float(row.get("cost_to_go", 0.0)),
        },
        "action": action,
        "legal": sorted(legal),
        "reward": earned,
        "chance": _chance(row),
        "agent": row.get("agent"),
        "policy_version": row.get("policy_version"),
    }


def _choice(row: Json) -> tuple[str, set[str]]:
    """Return what was chosen and what could have been, each with the place in the code."""
    place = row.get("name") or row.get("agent")
    chosen = f"{place}={'+'.join(str(one) for one in row['chosen'])}"
    return chosen, {chosen, *(f"{place}={one}" for one in row["legal_actions"])}


def _stop(row: Json) -> tuple[str, set[str]]:
    """Return whether the run went on; where it could have stopped, both could have been."""
    return row["action"], {"continue", "stop"}


def _features(row: Json) -> Json:
    """Return what was seen, numbers alone; names that we give ourselves are told apart."""
    given: Mapping[str, Any] = row.get("features", {})
    return {
        f"feature:{name}" if name.startswith(_OURS) else name: float(value)
        for name, value in given.items()
        if _is_number(value)
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
