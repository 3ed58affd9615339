"""The stopping value: what its policy is worth in the world, and what advice costs inline."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import orchtrace_otel as orchtrace
from benchmarks import measure
from orchtrace_otel.rewards.stopping.baselines import FITTED
from orchtrace_otel.rewards.stopping.evaluation import interval
from orchtrace_otel.rewards.stopping.features import FEATURES
from orchtrace_otel.rewards.stopping.fit import fit_stop_value
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import read_course
from orchtrace_otel.testing.world import make_stopping_runs
from orchtrace_otel.testing.world.stopping_trials import FORCED_ON, LOGGED, compare

SEEDS = range(101, 109)
COSTS = (0.03, 0.05, 0.1)
CALLS = 300
ROUNDS = 7


def worth(cost: float, collected: str) -> None:
    """Print a table: each policy's mean utility, and what the fitted one gains on it."""
    pooled: dict[str, tuple[list[float], list[str]]] = {}
    for seed in SEEDS:
        for name, (values, tasks) in compare(seed, cost, collected).items():
            held = pooled.setdefault(name, ([], []))
            held[0].extend(values)
            held[1].extend(tasks)
    ours, tasks = np.array(pooled[FITTED][0]), pooled[FITTED][1]
    print(f"\nprice {cost:g} a step, runs {collected}, {len(SEEDS)} seeds, {len(ours)} runs")
    for name, (values, _) in pooled.items():
        gain = ours - np.array(values)
        low, high = interval(gain, np.ones(len(gain)), tasks) or (0.0, 0.0)
        said = "" if name == FITTED else f"{gain.mean():+.4f} [{low:+.4f}, {high:+.4f}]"
        print(f"  {name:<22} {statistics.fmean(values):.4f}   {said}")


def model_of(features: list[str]) -> StopValue:
    """Return a model whose features have other names, so that the advisor's will do."""
    runs = make_stopping_runs(1)
    courses = [read_course(run.full_trace) for run in runs]
    names = dict(zip(courses[0].points[0].features or {}, features, strict=False))
    renamed = [
        course._replace(
            points=tuple(
                point._replace(
                    features={names[key]: value for key, value in (point.features or {}).items()}
                )
                for point in course.points
            )
        )
        for course in courses
    ]
    return fit_stop_value(renamed, cost=0.05)


@orchtrace.agent
def work() -> None:
    """Do nothing, traced."""


@orchtrace.team
def team(count: int) -> None:
    """Call an agent so often: each return is a decision point."""
    for _ in range(count):
        work()


def inline() -> None:
    """Print what advice adds to a call, beside a raw span, and what the model alone takes."""
    model = model_of(list(FEATURES))
    provider = measure.provider()
    orchtrace.configure(tracer_provider=provider, exporters=[])
    tracer = provider.get_tracer("raw")

    def raw() -> float:
        return measure.cpu(lambda: measure.raw_spans(tracer, CALLS))

    def plain() -> float:
        return measure.cpu(lambda: team(CALLS))

    def seen() -> float:
        with orchtrace.advise():
            return measure.cpu(lambda: team(CALLS))

    def advised() -> float:
        with orchtrace.advise(model):
            return measure.cpu(lambda: team(CALLS))

    blocks = {"raw": raw, "plain": plain, "seen": seen, "advised": advised}
    samples = measure.alternate(blocks, ROUNDS)
    calls = {name: statistics.median(values) / CALLS * 1e6 for name, values in samples.items()}
    features = dict.fromkeys(FEATURES, 1.0)
    began = time.process_time()
    for _ in range(2_000):
        model.advise(features)
    alone = (time.process_time() - began) / 2_000 * 1e6
    measure.report(
        "Advice inline, CPU microseconds",
        [
            ("a raw span", calls["raw"], ""),
            ("a decorated call", calls["plain"], ""),
            ("features add to a call", calls["seen"] - calls["plain"], ""),
            ("features and advice add to a call", calls["advised"] - calls["plain"], ""),
            ("the model alone", alone, ""),
        ],
    )
    orchtrace.shutdown()


def main() -> None:
    inline()
    if "--quick" in sys.argv:
        return
    for collected in (FORCED_ON, LOGGED):
        for cost in COSTS:
            worth(cost, collected)


if __name__ == "__main__":
    main()
