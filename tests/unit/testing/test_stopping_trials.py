"""Trials of stopping policies: the truth of every policy on tasks that nobody trained on."""

from __future__ import annotations

from statistics import fmean

import pytest

from orchtrace_otel.testing.world.stopping_trials import FORCED_ON, LOGGED, compare


@pytest.mark.parametrize("collected", [FORCED_ON, LOGGED])
def test_every_policy_is_tried_on_the_same_runs(collected: str) -> None:
    """All of them are known, for the world knows each point; none does better than hindsight."""
    found = compare(5, 0.05, collected, tasks=5)
    names = {"fitted", "fixed step limit", "token budget", "time budget", "answer unchanged"}
    names |= {"confidence threshold", "self-report", "loop rule", "logged policy", "oracle"}
    assert set(found) == names
    best, tasks = found["oracle"]
    assert len(best) == 20
    for values, of in found.values():
        assert of == tasks
        assert all(value <= most + 1e-12 for value, most in zip(values, best, strict=True))
    if collected == FORCED_ON:
        assert fmean(found["fitted"][0]) >= fmean(found["logged policy"][0])
