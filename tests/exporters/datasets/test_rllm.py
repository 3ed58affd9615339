"""`rllm`: episodes of trajectories of steps, grouped by task and role.

Shapes are those of the repository rllm-org/rllm at 9beb6e0f676a (15 August 2026): keys that
`from_dict` of `Episode`, `Trajectory` and `Step` reads in `rllm/types.py`, reasons of
`rllm/workflows/workflow.py`, groups of `rllm/trainer/algorithms/transform.py`. It is in no
registry, so that its classes cannot be asked here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.errors import ConfigError
from tests.exporting import exported, lineage
from tests.nested import nested
from tests.recorded import Call, Recorder, siblings, text, tokens

Json = dict[str, Any]

EPISODE = {"id", "task", "termination_reason", "is_correct", "trajectories"}
TRAJECTORY = {"name", "task", "reward", "steps", "uid", "info"}
STEP = {
    *("prompt_ids", "response_ids", "logprobs", "chat_completions", "observation", "thought"),
    *("action", "model_response", "reward", "done", "mc_return"),
}
REASONS = {
    *("max_prompt_length_exceeded", "max_response_length_exceeded", "env_done"),
    *("max_turns_exceeded", "timeout", "unknown", "error"),
}


def check(episode: Json) -> None:
    """Hold an episode to what rLLM asserts when it reads one and makes groups of it."""
    assert episode.keys() >= EPISODE
    assert len(episode["id"].split(":")) == 2
    assert episode["termination_reason"] in REASONS
    for trajectory in episode["trajectories"]:
        assert trajectory.keys() >= TRAJECTORY
        assert trajectory["steps"]
        assert isinstance(trajectory["reward"], float)
        for step in trajectory["steps"]:
            assert step.keys() >= STEP
            assert len(step["logprobs"]) in {0, len(step["response_ids"])}
            assert step["weight_version"] is None or isinstance(step["weight_version"], int)
            assert step["reward"] == trajectory["reward"]


def groups(episodes: list[Json]) -> dict[str, list[Json]]:
    """Group trajectories as rLLM does by default."""
    found: dict[str, list[Json]] = {}
    for episode in episodes:
        for one in episode["trajectories"]:
            found.setdefault(f"{episode['id'].split(':')[0]}:{one['name']}", []).append(one)
    return found


def test_a_run_is_an_episode_with_a_trajectory_for_each_agent(tmp_path: Path) -> None:
    """A step a call, with its tokens; names are roles, so that each has its own baseline."""
    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, episodes = exported(tmp_path, store, [first, second], format="rllm")
    for episode in episodes:
        check(episode)
    lead, scout = max(episodes, key=lambda one: one["is_correct"])["trajectories"]
    assert (lead["name"], scout["name"]) == ("planner", "executor")
    assert [step["prompt_ids"] for step in lead["steps"]] == [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7]]
    assert [step["response_ids"] for step in lead["steps"]] == [[4, 5], [12, 13]]
    assert lead["steps"][0]["logprobs"] == [-0.04, -0.05]
    assert [said["content"] for said in lead["steps"][1]["chat_completions"]] == [
        *("How high is the tide?", "ask two", "north: high; south: high", "high")
    ]
    assert {name: len(members) for name, members in groups(episodes).items()} == {
        "tide:planner": 2,
        "tide:executor": 2,
    }


def test_parallel_siblings_are_a_trajectory_each_with_their_own_reward(tmp_path: Path) -> None:
    """They are compared with one another, though they are of one run."""
    recorder = Recorder(tmp_path)
    _, (episode,) = exported(tmp_path, recorder.store, [siblings(recorder)], format="rllm")
    check(episode)
    assert [one["reward"] for one in episode["trajectories"]] == [0.0, 0.5, 1.0]
    assert {one["name"] for one in episode["trajectories"]} == {"executor"}


def test_a_colon_in_a_task_does_not_end_it(tmp_path: Path) -> None:
    """rLLM takes what is before the first one for the task."""
    recorder = Recorder(tmp_path)
    runs = [
        recorder.run(
            number,
            [Call("a", [text("user", "?")], [text("assistant", "x")], tokens=tokens("x"))],
            task="set:7%",
            reward=float(number),
            stop_reason="max_steps",
        )
        for number in (1, 2)
    ]
    _, episodes = exported(tmp_path, recorder.store, runs, format="rllm")
    assert [one["id"] for one in episodes] == ["set%3A7%25:0", "set%3A7%25:1"]
    assert {one["termination_reason"] for one in episodes} == {"max_turns_exceeded"}
    assert all(one["task"]["id"] == "set:7%" for one in episodes)


def test_what_cannot_be_compared_or_said_is_told(tmp_path: Path) -> None:
    """One trajectory of a role, tokens that a server forced, ids that nobody gave."""
    recorder = Recorder(tmp_path)
    said = [text("assistant", "x y")]
    forced = Tokens(provenance="exact", prompt_ids=(1,), ids=(2, 3), mask=(1, 0))
    calls = [
        Call("a", [text("user", "?")], said, tokens=tokens("x y")),
        Call("b", [text("user", "?")], said, tokens=forced),
        Call("c", [text("user", "?")], said),
    ]
    report, _ = exported(
        tmp_path, recorder.store, [recorder.run(1, calls, task="t", reward=1.0)], format="rllm"
    )
    assert report.check.calls == {"one_sample": 1, "unwritable": 1, "no_token_ids": 1}
    assert "rllm cannot be made of these runs" in str(report.check.refusal)


def test_groups_may_be_of_agents(tmp_path: Path) -> None:
    """Any other word is refused."""
    recorder = Recorder(tmp_path)
    runs = [siblings(recorder)]
    choices = {"format": "rllm", "settings": {"groups": "agent"}}
    _, (episode,) = exported(tmp_path, recorder.store, runs, **choices)
    assert {one["name"] for one in episode["trajectories"]} == {"scout"}
    with pytest.raises(ConfigError, match="groups must be one of role, agent"):
        exported(tmp_path, recorder.store, runs, format="rllm", settings={"groups": "team"})


def test_a_thousand_runs_are_an_episode_each(thousand, tmp_path: Path) -> None:
    """Every call is a step, in a group of its task and role."""
    store, made = thousand
    report, episodes = exported(tmp_path, store, made, format="rllm")
    for episode in episodes:
        check(episode)
    assert (len(episodes), report.check.calls) == (1_000, {})
    assert len(groups(episodes)) == 300
    assert sum(len(row["turns"]) for row in lineage(tmp_path)) == 3_000
