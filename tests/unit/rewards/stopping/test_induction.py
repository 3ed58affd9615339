"""Backward induction on the sheet's example, to its printed digits."""

from __future__ import annotations

from typing import Any

import pytest

from orchtrace_otel.rewards.stopping import baselines
from orchtrace_otel.rewards.stopping._learn import np
from orchtrace_otel.rewards.stopping.heads import Head
from orchtrace_otel.rewards.stopping.induction import induce, tabulate, value_of_policy
from tests.unit.rewards.stopping.courses import SHEET_COST, course, sheet


class Cells:
    """A regression that knows each state by itself: the mean of its rows."""

    def __init__(self, x: Any, y: Any) -> None:
        self._means = {
            state: y[[tuple(row) == state for row in x]].mean() for state in set(map(tuple, x))
        }

    def predict(self, x: Any) -> Any:
        return np.array([self._means.get(tuple(row), 0.0) for row in x])

    def head(self) -> Head:
        raise NotImplementedError


def learned(sweeps: int) -> tuple[dict[tuple[int, str], float], float]:
    """The gains by step and state, and the mean worth of the policy they make."""
    table = tabulate(sheet(), ("step", "high"), SHEET_COST)
    one_fold = np.zeros(len(table.worth), dtype=np.intp)
    found = induce(table, table.worth, one_fold, Cells, sweeps)
    value = value_of_policy(table, table.worth, found.gain <= 0) - table.paid
    gains = {
        (int(step), "H" if high else "L"): float(gain)
        for (step, high), gain in zip(table.x, found.gain, strict=True)
    }
    return gains, float(value[table.x[:, 0] == 1].mean())


def test_the_sheets_example_has_the_sheets_values() -> None:
    """V_stop and the policy's value, after as many sweeps as it takes to look two steps ahead."""
    gains, value = learned(3)
    assert gains[2, "L"] == pytest.approx(0.25)
    assert gains[2, "H"] == pytest.approx(-0.10)
    assert gains[1, "L"] == pytest.approx(0.30)
    assert gains[1, "H"] == pytest.approx(-0.10)
    assert value == pytest.approx(0.425)


def test_one_sweep_follows_the_log_to_its_end() -> None:
    """At step 1 the low ones gain .2667 by going on to step 3, and .30 once step 2 may stop."""
    assert learned(1)[0][1, "L"] == pytest.approx(0.8 / 3)


def test_fixed_limits_and_the_oracle_have_the_sheets_values() -> None:
    """Limits 1, 2, 3 are worth .20, .275, .35, and hindsight .45."""

    def mean(policy: baselines.Policy) -> float:
        worth = [baselines.worth_of(one, policy(one), SHEET_COST) for one in sheet()]
        return sum(value for value in worth if value is not None) / len(worth)

    limits = [mean(baselines.by_steps(limit)) for limit in (1, 2, 3)]
    assert limits == pytest.approx([0.20, 0.275, 0.35])
    assert mean(baselines.by_hindsight(SHEET_COST)) == pytest.approx(0.45)


def test_a_log_that_chance_ended_is_worth_what_going_on_is_said_to_gain() -> None:
    """Where a limit ended it, it is worth what it was; the sweep before speaks of the others."""
    free = [course([0.0, 0.0, 1.0], task=f"t{n}", run=f"f{n}", is_limited=True) for n in range(4)]
    cut = course([0.0, 0.0], task="cut", run="cut")
    table = tabulate([*free, cut], ("step",), 0.1)
    fold = np.zeros(len(table.worth), dtype=np.intp)
    first = induce(table, table.worth, fold, Cells, 1)
    second = induce(table, table.worth, fold, Cells, 2)
    place = int(np.flatnonzero(table.is_free)[0]) - 1
    assert first.targets[place] == pytest.approx(-0.1)
    assert second.targets[place] == pytest.approx(0.8)


def test_a_point_without_features_costs_a_step_all_the_same() -> None:
    """The price between two points that are seen is that of all steps between."""
    seen = course([0.1, 0.2, 0.9], [{"x": 1}, None, {"x": 2}], is_limited=True)
    table = tabulate([seen], ("x",), 0.1)
    assert table.price == pytest.approx([0.2, 0.0])
    assert table.paid == pytest.approx([0.1, 0.3])
