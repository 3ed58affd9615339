"""Minari's own loader finds, samples and rebuilds our episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.conftest import Source
from tests.trainers.present import needs

pytestmark = [
    needs("minari"),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries are not ours
]


def loaded(source: Source, tmp_path: Path, monkeypatch: Any, **choices: Any) -> tuple[Any, Any]:
    """Export some runs; return the data set of one split and what its numbers mean."""
    import minari

    report = source.export("minari", tmp_path / "out", **choices)
    assert report.check.refusal is None, report.check.refusal
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "out"))
    found = minari.load_dataset("train-v0")
    assert found.total_episodes == report.splits["train"]
    return found, json.loads((tmp_path / "out" / "space.json").read_text())


def test_episodes_come_back_as_they_were_decided(sources, tmp_path, monkeypatch) -> None:
    """All of a thousand runs: within their spaces, with their chance and an end of their own."""
    found, space = loaded(sources["thousand"], tmp_path, monkeypatch)
    assert (found.total_episodes, found.total_steps) == (1_000, 2_000)
    drafts = space["observations"].index("drafts")
    rewards = set()
    for episode in found.iterate_episodes():
        assert episode.observations.shape == (3, len(space["observations"]))
        assert all(found.observation_space.contains(one) for one in episode.observations)
        assert all(found.action_space.contains(one) for one in episode.actions)
        assert episode.observations[:2, drafts].tolist() == [0.0, 1.0]
        assert [space["actions"][one] for one in episode.actions] == ["route=publish"] * 2
        assert episode.terminations.tolist() == [False, True]
        assert episode.truncations.tolist() == [False, False]
        assert episode.infos["behavior_prob"][:2].tolist() == [0.5, 0.5]
        assert episode.infos["action_mask"][:2].tolist() == [[1, 1], [1, 1]]
        rewards.add(episode.rewards.sum())
    assert len(rewards) > 500


def test_both_splits_load_and_have_one_space(sources, tmp_path, monkeypatch) -> None:
    """What is learnt of the one can be tried on the other."""
    import minari

    train, _ = loaded(sources["thousand"], tmp_path, monkeypatch, validation=0.2)
    held_out = minari.load_dataset("validation-v0")
    assert train.total_episodes + held_out.total_episodes == 1_000
    assert train.observation_space == held_out.observation_space
    assert train.action_space == held_out.action_space
    assert len(train.sample_episodes(5)) == 5


def test_the_demo_refuses_for_want_of_propensities(sources, tmp_path) -> None:
    """Without them its choices load all the same, with no chance beside them."""
    import minari
    import numpy as np

    if "demo" not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    report = sources["demo"].export("minari", tmp_path / "none")
    assert set(report.check.runs) <= {"no_propensity", "no_decision"}
    assert report.check.refusal is not None
    settings = {"propensity": "any"}
    report = sources["demo"].export("minari", tmp_path / "out", settings=settings)
    assert report.check.refusal is None
    found = minari.MinariDataset(tmp_path / "out" / "train-v0" / "data")
    for episode in found.iterate_episodes():
        assert np.isnan(episode.infos["behavior_prob"]).all()
        assert episode.terminations[-1]
