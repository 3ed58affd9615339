"""Runs that could have stopped at any of several points: what each point shows, and its truth.

A lead sends two workers out a round. Each tries a requirement that is not met yet, harder
in some tasks than in others; now and then a round breaks what was met before, more so
where all is met and work goes on; and a run can get stuck, where the workers repeat
themselves. A critic says how good the answer is, with noise. None of that is seen
itself: a policy sees features. The log stops by a known hazard, at the latest at the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.testing.world._chance import chance
from orchtrace_otel.testing.world._stage import Stage, features_of

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from orchtrace_otel.testing.world._stage import Act

REQUIREMENTS: Final = 6
LIMIT: Final = 12
GRADED: Final = 0.8
"""Share of decision points at which the answer was graded; the others are censored."""

_WORKERS: Final = ("scout", "builder")
_BUDGET_TOKENS: Final = 12_000
_STALE: Final = 3
_GETS_UNSTUCK: Final = 0.1
_REPEATS_BY_CHANCE: Final = 0.1
_FAILURE_SHOWS: Final = 0.3


class Point(NamedTuple):
    """A point at which a run could stop.

    Attributes:
        features: What a policy sees there, numbers by name.
        quality: The truth: the quality of the answer there, from 0 to 1.
        hazard: How likely the log's policy was to stop there.
        is_graded: Whether the log has the quality.
    """

    features: Mapping[str, float]
    quality: float
    hazard: float
    is_graded: bool


@dataclass(frozen=True, slots=True)
class StoppingRun:
    """One run, as far as it was logged and as it would have gone on.

    Attributes:
        trace: The run up to its logged stop; its decision points are events with
            `decision_point`, `features` and, where graded, `answer_now`.
        full_trace: The same run had it gone on to the limit.
        points: Every point up to the limit, the truth included.
        stopped: At which of them it was logged to stop, counted from 1.
    """

    trace: Trace
    full_trace: Trace
    points: tuple[Point, ...]
    stopped: int

    @property
    def task_id(self) -> str:
        """The task, which runs of one difficulty share."""
        return self.trace.task_id

    def utility(self, step: int, cost: float) -> float:
        """Return what stopping at point `step`, counted from 1, is worth at `cost` a step."""
        return self.points[step - 1].quality - cost * step

    def best(self, cost: float) -> int:
        """Return the best point to stop at in hindsight, the earliest of equal ones."""
        steps = range(1, len(self.points) + 1)
        return max(steps, key=lambda step: (self.utility(step, cost), -step))


@dataclass(slots=True)
class _State:
    """How far a run is; nobody sees it."""

    met: int = 0
    is_stuck: bool = False
    unchanged: int = 0
    repeats: int = 0
    failures: int = 0
    gained: int = 0
    verdict: float = 0.0
    before: float = 0.0


def make_stopping_runs(seed: int, *, tasks: int = 40, runs_per_task: int = 4) -> list[StoppingRun]:
    """Play runs that could have stopped at each of their points.

    Args:
        seed: Draws everything; other seeds are other tasks.
        tasks: How many tasks, each of a difficulty of its own.
        runs_per_task: How many runs of each.

    Example:
        >>> runs = make_stopping_runs(1, tasks=2, runs_per_task=1)
        >>> [run.task_id for run in runs]
        ['stop-1-0', 'stop-1-1']
        >>> all(1 <= run.stopped <= len(run.points) for run in runs)
        True
    """
    return [_play(seed, task, run) for task in range(tasks) for run in range(runs_per_task)]


def _play(seed: int, task: int, run: int) -> StoppingRun:
    points = _points(seed, task, run)
    dice = chance("stop", seed, task, run)
    stopped = LIMIT
    for step, point in enumerate(points, start=1):
        if dice.random() < point.hazard:
            stopped = step
            break
    return StoppingRun(
        trace=_write(seed, task, run, points[:stopped]),
        full_trace=_write(seed, task, run, points),
        points=points,
        stopped=stopped,
    )


def _points(seed: int, task: int, run: int) -> tuple[Point, ...]:
    difficulty = chance("difficulty", seed, task).gauss(0.0, 1.0)
    dice = chance("rounds", seed, task, run)
    state = _State()
    points: list[Point] = []
    for step in range(1, LIMIT + 1):
        _go_on(state, difficulty, dice)
        seen = _look(state, step, dice)
        is_last = step == LIMIT
        hazard = 1.0 if is_last else _hazard(seen)
        points.append(Point(seen, state.met / REQUIREMENTS, hazard, dice.random() < GRADED))
    return tuple(points)


def _go_on(state: _State, difficulty: float, dice: random.Random) -> None:
    """One round of two workers."""
    if state.is_stuck:
        state.is_stuck = dice.random() > _GETS_UNSTUCK
    else:
        state.is_stuck = dice.random() < 0.06 + 0.05 * max(difficulty, 0.0)
    likely = _logistic(-0.2 - difficulty) * (0.1 if state.is_stuck else 1.0)
    gained = sum(dice.random() < likely for _ in _WORKERS)
    gained = min(gained, REQUIREMENTS - state.met)
    breaks = 0.15 if state.met == REQUIREMENTS else 0.05
    lost = 1 if state.met and dice.random() < breaks else 0
    state.met += gained - lost
    state.gained = gained
    state.unchanged = 0 if gained or lost else state.unchanged + 1
    state.repeats = state.repeats + 1 if state.is_stuck else 0
    state.failures = 0 if gained else state.failures + 1
    state.before = state.verdict
    state.verdict = _clip(state.met / REQUIREMENTS + dice.gauss(0.0, 0.15))


def _look(state: _State, step: int, dice: random.Random) -> dict[str, float]:
    """What can be seen after a round."""
    share = state.met / REQUIREMENTS
    report = _clip(share + 0.1 + dice.gauss(0.0, 0.1))
    seen = {
        "step": step,
        "elapsed_share": _clip(step / LIMIT + dice.gauss(0.0, 0.03)),
        "tokens_share": step * 900 / _BUDGET_TOKENS,
        "open_delegations": 0,
        "verdict": state.verdict,
        "verdict_change": state.verdict - state.before,
        "unchanged": state.unchanged,
        "agreement": _clip(0.3 + 0.6 * share + dice.gauss(0.0, 0.15)),
        "novelty": _clip(state.gained / len(_WORKERS) + dice.gauss(0.0, 0.15)),
        "repeats": max(state.repeats + (dice.random() < _REPEATS_BY_CHANCE), 0),
        "failures": state.failures,
        "progress": int(state.gained > 0),
        "plan_done": round(report * REQUIREMENTS),
        "plan_total": REQUIREMENTS,
    }
    return {name: round(value, 6) for name, value in seen.items()}


def _hazard(seen: Mapping[str, float]) -> float:
    """The log's policy: likelier to stop when the critic is content, or nothing changes."""
    stale = 1.0 if seen["unchanged"] >= _STALE else 0.0
    likely = _logistic(-4.0 + 3.0 * seen["verdict"] + 0.1 * seen["step"] + stale)
    return min(max(likely, 0.02), 0.9)


def _write(seed: int, task: int, run: int, points: tuple[Point, ...]) -> Trace:
    dice = chance("write", seed, task, run)
    stage = Stage("lead", f"stop-{seed}-{task}", "stop", seed, task, run)
    root = stage.root
    graded: dict[str, Point] = {}
    for step, point in enumerate(points, start=1):
        workers = [_send_out(stage, name, point, dice) for name in _WORKERS]
        stage.wait(root, workers)
        stage.merge(root, workers, dice.uniform(0.2, 0.8), 200)
        keys = {
            a.DECISION_NAME: "stop_or_go_on",
            a.CHOSEN: "stop" if step == len(points) else "go_on",
            a.CANDIDATES: ("go_on", "stop"),
            a.FEATURES: features_of(point.features),
            a.STOP_PROBABILITY: point.hazard,
        }
        graded[stage.tell(root, "decide", 0.0, **keys)] = point
    stage.stop("max_steps" if len(points) == LIMIT else "quality_met")
    outcome = points[-1].quality
    reward = Reward(id=f"{stage.run_id}:outcome", component="outcome", value=outcome)
    return _grade(stage.finish([reward]), graded)


def _send_out(stage: Stage, name: str, point: Point, dice: random.Random) -> Act:
    act = stage.open(stage.root, name, role="executor")
    failed = not point.features["progress"] and dice.random() < _FAILURE_SHOWS
    stage.use_tool(act, "try", dice.uniform(0.2, 1.5), is_error=failed)
    stage.work(act, dice.uniform(0.5, 2.0), dice.randrange(200, 500))
    stage.close(act)
    return act


def _grade(trace: Trace, graded: Mapping[str, Point]) -> Trace:
    """Write on the decision points what a span has no attribute for."""
    events = list(trace.events)
    for at, event in enumerate(events):
        point = graded.get(event.id)
        if point is None:
            continue
        keys = {**event.keys, "decision_point": "after_merge"}
        if point.is_graded:
            keys["answer_now"] = point.quality
        events[at] = replace(event, keys=keys)
    return replace(trace, events=tuple(events))


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)
