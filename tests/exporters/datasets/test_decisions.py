"""`minari` and `rllib`: decisions as steps of episodes, with their chance and what they earned."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from orchtrace_datasets.rllib import schema
from orchtrace_otel.datasets import Job, Report, export
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards.stopping import read_courses
from orchtrace_otel.testing.world import make_stopping_runs
from tests.recorded import Call, Recorder, many, text, write

CHOICES = [
    {
        "name": "route",
        "chosen": "revise",
        "candidates": ["publish", "revise"],
        "features": {"drafts": 0, "length": 120.0},
        "behavior_prob": 0.25,
        "policy_version": "router-2",
    },
    {
        "name": "route",
        "chosen": "publish",
        "candidates": ["publish", "revise"],
        "features": {"drafts": 1},
        "behavior_prob": 0.5,
    },
]
FORMATS = ("minari", "rllib")


def made(folder: Path, traces: list[Trace], **choices: Any) -> tuple[Report, Path]:
    """Export everything into one split; return the report and the folder."""
    number = len(list(folder.glob("out-*")))
    job = Job(**{"validation": 0.0, **choices})
    source = write(folder / f"in-{number}", traces)
    out = folder / f"out-{number}"
    return export(job, [str(source)], out), out


def run(folder: Path, decisions: list[dict[str, Any]], number: int = 1, **more: Any) -> Trace:
    """One run of one call and some decisions."""
    call = Call("scout", [text("user", "?")], [text("assistant", "!")])
    return Recorder(folder).run(number, [call], decisions=decisions, **{"reward": 1.0, **more})


def test_a_step_has_what_was_seen_done_and_earned(tmp_path: Path) -> None:
    """As RLlib's columns: features in a fixed order, and a mark where one was not always seen."""
    trace = run(tmp_path, CHOICES, task="tide", weight=2.0)
    first_decision = f"{1:08x}{8192:08x}"
    own = Reward(id="own", component="task", value=-0.25, unit="message", target=first_decision)
    trace.stop.keys["reward_records"].append(own.to_dict())
    report, out = made(tmp_path, [trace], format="rllib")
    assert report.check.refusal is None
    table = pq.read_table(out / "train.parquet")
    assert table.schema == schema()
    names = ["drafts", "has:length", "length", "run.seconds", "run.step", "run.tokens"]
    assert json.loads((out / "space.json").read_text()) == {
        "observations": names,
        "actions": ["route=publish", "route=revise"],
    }
    first, last = table.to_pylist()
    infos = {
        "agent": "lead",
        "decision_id": first_decision,
        "policy_version": "router-2",
        "task_id": "tide",
        "weight": 2.0,
        "action_mask": [1, 1],
    }
    assert first == {
        "eps_id": trace.trace_id,
        "agent_id": "orchestrator",
        "module_id": "default_policy",
        "t": 0,
        "obs": [0.0, 1.0, 120.0, 2.5, 0.0, 12.0],
        "new_obs": [1.0, 0.0, 0.0, 3.0, 1.0, 12.0],
        "actions": 1,
        "action_logp": pytest.approx(math.log(0.25)),
        "rewards": -0.25,
        "terminateds": False,
        "truncateds": False,
        "infos": infos,
    }
    assert (last["actions"], last["rewards"], last["terminateds"]) == (0, 1.0, True)
    assert last["obs"] == first["new_obs"]


def test_features_that_are_named_like_ours_stay_apart(tmp_path: Path) -> None:
    """Both are seen, each under a name of its own."""
    features = {"run.step": 7.0, "has:drafts": 1.0}
    _, out = made(tmp_path, [run(tmp_path, [{**CHOICES[0], "features": features}])], format="rllib")
    (row,) = pq.read_table(out / "train.parquet").to_pylist()
    names = json.loads((out / "space.json").read_text())["observations"]
    assert dict(zip(names, row["obs"], strict=True)) == {
        "feature:run.step": 7.0,
        "feature:has:drafts": 1.0,
        "run.seconds": 2.5,
        "run.step": 0.0,
        "run.tokens": 12.0,
    }


def test_minari_has_the_same_episodes(tmp_path: Path) -> None:
    """In the layout of its Parquet storage, read in minari 0.5.4's `arrow_storage.py`."""
    _, out = made(tmp_path, [run(tmp_path, CHOICES)], format="minari")
    data = out / "train-v0" / "data"
    rows = pq.read_table(data / "0" / "part-0.parquet").to_pylist()
    assert [row["observations"] for row in rows] == [
        [0.0, 1.0, 120.0, 2.5, 0.0, 12.0],
        [1.0, 0.0, 0.0, 3.0, 1.0, 12.0],
        [1.0, 0.0, 0.0, 3.5, 2.0, 12.0],
    ]
    assert [row["actions"] for row in rows] == [1, 0, 0]
    assert [row["rewards"] for row in rows] == [0.0, 1.0, 0.0]
    assert [row["terminations"] for row in rows] == [False, True, False]
    assert [row["infos"]["behavior_prob"] for row in rows[:2]] == [0.25, 0.5]
    facts = json.loads((data / "metadata.json").read_text())
    assert (facts["total_episodes"], facts["total_steps"]) == (1, 2)
    assert facts["action_names"] == ["route=publish", "route=revise"]
    episode = json.loads((data / "0" / "metadata.json").read_text())
    assert (episode["id"], episode["total_steps"], episode["weight"]) == (0, 2, 1.0)


@pytest.mark.parametrize("name", FORMATS)
def test_without_propensities_it_refuses(name: str, tmp_path: Path) -> None:
    """It says so, and writes nothing, unless the job does without."""
    bare = [{key: value for key, value in CHOICES[0].items() if key != "behavior_prob"}]
    trace = run(tmp_path, bare)
    report, out = made(tmp_path, [trace], format=name)
    assert report.check.runs == {"no_propensity": 1}
    assert "no_propensity: nobody recorded with which chance" in str(report.check.refusal)
    assert not out.exists()
    report, out = made(tmp_path, [trace], format=name, settings={"propensity": "any"})
    assert (report.check.refusal, report.check.records) == (None, 1)


@pytest.mark.parametrize("name", FORMATS)
def test_each_run_that_is_left_out_has_its_reason(name: str, tmp_path: Path) -> None:
    """No decision, no reward, an impossible chance; the rest is written."""
    runs = [
        run(tmp_path, CHOICES, 1),
        run(tmp_path, [], 2),
        run(tmp_path, CHOICES, 3, reward=None),
        run(tmp_path, [{**CHOICES[0], "behavior_prob": 0.0}], 4),
    ]
    report, _ = made(tmp_path, runs, format=name)
    assert report.check.records == 1
    assert report.check.runs == {"no_decision": 1, "no_reward": 1, "no_propensity": 1}


@pytest.mark.parametrize(("reason", "cut_off"), [("quality_met", False), ("token_budget", True)])
def test_what_something_else_ended_is_truncated(reason: str, cut_off: bool, tmp_path: Path) -> None:
    """A budget is no decision; a learner may not take its end for the end of the task."""
    trace = run(tmp_path, CHOICES, stop_reason=reason)
    _, out = made(tmp_path, [trace], format="rllib")
    table = pq.read_table(out / "train.parquet")
    assert table["truncateds"].to_pylist() == [False, cut_off]
    assert table["terminateds"].to_pylist() == [False, not cut_off]


@pytest.mark.parametrize("verb", ["human_intervention", "decide", "aggregate"])
def test_points_where_it_could_have_stopped_are_episodes_too(tmp_path: Path, verb: str) -> None:
    """Going on, until it stopped: the chance of going on is what that of stopping leaves.

    Whatever is decided there besides, with whichever chance.
    """
    points = [
        {
            "verb": verb,
            **({"chosen": "x", "candidates": ["x", "y"], "behavior_prob": 0.9} if place else {}),
            "decision_point": "after a draft",
            "features": {"drafts": place},
            "stop_probability": 0.25 * (place + 1),
        }
        for place in range(3)
    ]
    _, out = made(tmp_path, [run(tmp_path, points)], format="rllib", settings={"of": "stops"})
    rows = pq.read_table(out / "train.parquet").to_pylist()
    assert json.loads((out / "space.json").read_text())["actions"] == ["continue", "stop"]
    assert [row["actions"] for row in rows] == [0, 0, 1]
    chances = [math.exp(row["action_logp"]) for row in rows]
    assert chances == pytest.approx([0.75, 0.5, 0.75])
    assert [row["infos"]["action_mask"] for row in rows] == [[1, 1]] * 3


def test_the_chance_of_stopping_is_not_that_of_a_choice(tmp_path: Path) -> None:
    """A router whose chances nobody knows does not get them from who could have stopped it."""
    routed = {key: value for key, value in CHOICES[0].items() if key != "behavior_prob"}
    report, _ = made(
        tmp_path, [run(tmp_path, [{**routed, "stop_probability": 0.25}])], format="rllib"
    )
    assert report.check.runs == {"no_propensity": 1}


def test_runs_that_were_graded_at_their_points_are_episodes(tmp_path: Path) -> None:
    """As a stopping value is fitted from them: their decisions are the points."""
    trace = max(
        (one.trace for one in make_stopping_runs(3, tasks=2)), key=lambda one: len(one.events)
    )
    settings = {"of": "stops"}
    _, out = made(tmp_path, [trace], format="rllib", reward="outcome", settings=settings)
    rows = pq.read_table(out / "train.parquet").to_pylist()
    (course,) = read_courses([trace])
    *before, last = [point.stop_probability or 0.0 for point in course.points]
    assert len(before) > 1
    assert [row["actions"] for row in rows] == [0] * len(before) + [1]
    chances = [math.exp(row["action_logp"]) for row in rows]
    assert chances == pytest.approx([*(1 - stop for stop in before), last])


def test_a_stop_right_behind_a_point_is_that_point_again(tmp_path: Path) -> None:
    """It takes no step of its own, and its chance counts where the point has none."""
    points = [
        {"verb": "decide", "features": {"drafts": place}, "decision_point": "drafted"}
        for place in range(2)
    ]
    points[0]["stop_probability"] = 0.25
    trace = run(tmp_path, points)
    trace.stop.keys.update(decision_point="stop", features={"drafts": 1}, stop_probability=0.5)
    _, out = made(tmp_path, [trace], format="rllib", settings={"of": "stops"})
    rows = pq.read_table(out / "train.parquet").to_pylist()
    assert [row["actions"] for row in rows] == [0, 1]
    assert [math.exp(row["action_logp"]) for row in rows] == pytest.approx([0.75, 0.5])
    assert sum(row["rewards"] for row in rows) == 1.0


@pytest.mark.parametrize("name", FORMATS)
def test_splits_share_one_space(name: str, tmp_path: Path) -> None:
    """The number of an action, and the place of a feature, are the same in both."""
    recorder = Recorder(tmp_path)
    odd = {**CHOICES[0], "name": "rare", "features": {"seen once": 1.0}}
    call = Call("scout", [text("user", "?")], [text("assistant", "!")])
    alone = recorder.run(5_001, [call], decisions=[odd], task="alone", reward=1.0)
    runs = [*many(recorder, 1_000), alone]
    report, out = made(tmp_path, runs, format=name, validation=0.3)
    assert set(report.splits) == {"train", "validation"}
    assert sum(report.splits.values()) == 1_001
    if name == "rllib":
        widths = {
            len(row["obs"])
            for split in report.splits
            for row in pq.read_table(out / f"{split}.parquet").to_pylist()
        }
    else:
        files = [out / f"{split}-v0" / "data" / "metadata.json" for split in report.splits]
        spaces = [json.loads(json.loads(file.read_text())["observation_space"]) for file in files]
        widths = {space["shape"][0] for space in spaces}
    assert widths == {len(json.loads((out / "space.json").read_text())["observations"])}


def test_only_deciders_that_are_asked_for_count(tmp_path: Path) -> None:
    """As with calls, by the agent's name."""
    report, _ = made(tmp_path, [run(tmp_path, CHOICES)], format="rllib", agents=frozenset({"a"}))
    assert report.check.runs == {"no_decision": 1}


@pytest.mark.parametrize("setting", [{"of": "all"}, {"propensity": "no"}])
def test_a_wrong_setting_says_what_it_must_be(setting: dict[str, str], tmp_path: Path) -> None:
    """With what came."""
    with pytest.raises(ConfigError, match=r"must be one of .*, got"):
        made(tmp_path, [run(tmp_path, CHOICES)], format="rllib", settings=setting)


@pytest.mark.parametrize("end", [{"decision": "stop"}, {"stop_reason": "budget_exhausted"}])
def test_stops_of_others_are_steps(tmp_path: Path, end: dict[str, str]) -> None:
    """They know no verbs, and may list decision points alone: the stop is the last of them."""
    seen = {"features": {"x": 1.0}, "stop_probability": 0.5}
    keys = [seen, seen, {**seen, **end}]
    events = tuple(
        Event(str(at), at, "orchestrator_decision", "O", held) for at, held in enumerate(keys)
    )
    trace = Trace("r", "q", events, rewards={"team": 1.0}, costs={"tokens": 0, "wall_clock_s": 2})
    _, out = made(tmp_path, [trace], format="rllib", settings={"of": "stops"}, reward="team")
    rows = pq.read_table(out / "train.parquet").to_pylist()
    assert [row["actions"] for row in rows] == [0, 0, 1]
    assert rows[-1]["truncateds"] == ("stop_reason" in end)
