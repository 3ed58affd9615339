"""Trying stop policies that learned from a log on the truth behind it."""

import pytest

from orchtrace_otel.testing.world import make_stopping_runs
from orchtrace_otel.testing.world.log_trials import stop_by_logs

COST = 0.03


@pytest.fixture(scope="module")
def worth() -> dict[str, float]:
    """A small trial."""
    return stop_by_logs(3, cost=COST, tasks=8)


def test_nobody_beats_who_knows_the_future(worth: dict[str, float]) -> None:
    """The oracle stops where it turns out best, run by run, and every baseline is there."""
    assert max(worth.values()) == worth["oracle"]
    assert worth.keys() >= {
        "fitted",
        "fixed step limit",
        "token budget",
        "time budget",
        "answer unchanged",
        "confidence threshold",
        "self-report",
        "loop rule",
        "logged policy",
    }


def test_oracle_and_log_are_what_the_world_says(worth: dict[str, float]) -> None:
    """Both can be counted without any policy."""
    tried = make_stopping_runs(1_000_003, tasks=8)
    best = sum(run.utility(run.best(COST), COST) for run in tried) / len(tried)
    logged = sum(run.utility(run.stopped, COST) for run in tried) / len(tried)
    assert worth["oracle"] == pytest.approx(best)
    assert worth["logged policy"] == pytest.approx(logged)
