"""Reward functions score each run, and late rewards reach the exporters."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Trace
from tests.given import given_rewards
from tests.keeping import Kept
from tests.unit.configuration.teams import team


def test_reward_functions_score_each_run(provider: TracerProvider) -> None:
    """Given as a list or as a mapping of names."""
    kept = Kept()

    def events(trace: Trace) -> dict[str, float]:
        return {"events": float(len(trace.events))}

    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards=[events])
    team()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards={"mine": events})
    team()
    orchtrace.flush()
    assert [sorted((trace.metrics or {}) | trace.rewards) for trace in kept.traces]
    assert all("events" in {**(trace.metrics or {}), **trace.rewards} for trace in kept.traces)


def test_a_judge_that_is_a_team_is_not_judged(provider: TracerProvider) -> None:
    """Its runs are traced like any; to ask it about them, in whatever thread, would never end."""
    kept = Kept()

    @orchtrace.agent
    def read(trace: Trace) -> float:
        return float(len(trace.events))

    @orchtrace.team
    async def judge(trace: Trace) -> float:
        return await asyncio.to_thread(read, trace)

    def events(trace: Trace) -> float:
        return asyncio.run(judge(trace))

    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards={"events": events})
    team()
    team()
    orchtrace.flush()
    names = [[given_rewards(one), one.events[0].get("to")] for one in kept.traces]
    judged = [{"events": float(len(kept.traces[1].events))}, "team"]
    assert names == [[{}, "judge"], judged, [{}, "judge"], judged]


def test_reward_functions_of_other_packages_are_found_by_name(
    provider: TracerProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package names them under `orchtrace.reward`; what they declare holds."""
    (tmp_path / "their_rewards.py").write_text(
        "import orchtrace_otel as orchtrace\n"
        "@orchtrace.reward(family='R7', unit='orchestrator', range=(0, 1))\n"
        "def calm(trace):\n"
        "    return 0.5\n"
    )
    about = tmp_path / "their_rewards-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rewards\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[orchtrace.reward]\ncalmness = their_rewards:calm\n")
    monkeypatch.syspath_prepend(tmp_path)
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards=["calmness"])
    team()
    orchtrace.flush()
    records = [r for r in kept.traces[0].reward_records if r.component == "calmness"]
    assert [(r.value, r.family, r.unit) for r in records] == [(0.5, "R7", "orchestrator")]


def test_a_late_reward_reaches_the_exporters(provider: TracerProvider) -> None:
    """By the run's id, after the run."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    team()
    orchtrace.flush()
    orchtrace.record_reward("correctness", 1.0, run_id=kept.traces[0].trace_id)
    orchtrace.flush()
    assert [(run_id, reward.value) for run_id, reward in kept.rewards] == [
        (kept.traces[0].trace_id, 1.0)
    ]
