"""RLlib reads our columns as episodes, and behaviour cloning takes a step from the file."""

from __future__ import annotations

import json
import math
import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainers.present import needs

pytestmark = [
    needs("gymnasium"),  # Ray alone is not RLlib
    needs("ray"),
    pytest.mark.filterwarnings("ignore"),  # a trainer's own warnings are its own
]


def test_rows_become_episodes_of_a_step(sources, tmp_path) -> None:
    """By its own reader: what was seen before and after, done, earned, and with which chance."""
    import pyarrow.parquet as pq
    from ray.data.block import BlockAccessor
    from ray.rllib.algorithms.bc import BCConfig
    from ray.rllib.offline.offline_prelearner import OfflinePreLearner

    report = sources["thousand"].export("rllib", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "train.parquet")
    batch = BlockAccessor.for_block(table).to_numpy()
    reader: Any = SimpleNamespace(config=BCConfig())
    episodes = OfflinePreLearner._map_to_episodes(reader, batch)["episodes"]
    assert len(episodes) == 2 * report.check.records == 2_000
    for row, episode in zip(table.to_pylist(), episodes, strict=True):
        assert episode.id_ == row["eps_id"]
        assert [one.tolist() for one in episode.get_observations()] == [row["obs"], row["new_obs"]]
        assert (episode.get_actions(0), episode.get_rewards(0)) == (row["actions"], row["rewards"])
        assert episode.get_extra_model_outputs("action_logp", 0) == pytest.approx(math.log(0.5))
        assert list(episode.extra_model_outputs) == ["action_logp"]
        assert (episode.is_terminated, episode.is_truncated) == (row["t"] == 1, False)
        assert episode.get_infos(-1)["decision_id"] == row["infos"]["decision_id"]


def test_behaviour_cloning_takes_a_step(sources, tmp_path) -> None:
    """From the file, through Ray Data, on one machine."""
    import gymnasium
    import numpy as np
    import ray
    from ray.rllib.algorithms.bc import BCConfig

    out = tmp_path / "out"
    sources["thousand"].export("rllib", out)
    space = json.loads((out / "space.json").read_text())
    width = len(space["observations"])
    config = (
        BCConfig()
        .environment(
            observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32),
            action_space=gymnasium.spaces.Discrete(len(space["actions"])),
        )
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .offline_data(
            input_=[str(out / "train.parquet")],
            input_read_method="read_parquet",
            input_read_method_kwargs={"override_num_blocks": 1},
            map_batches_kwargs={"concurrency": 1, "num_cpus": 0.1},
            iter_batches_kwargs={"prefetch_batches": 0},
            dataset_num_iters_per_learner=1,
        )
        .training(train_batch_size_per_learner=16)
    )
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
    )
    try:
        algorithm = config.build_algo()
        learnt = algorithm.train()["learners"]["default_policy"]
        algorithm.stop()
    finally:
        ray.shutdown()
    assert learnt["num_module_steps_trained"] == 16
    assert math.isfinite(learnt["policy_loss"])
