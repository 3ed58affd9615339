"""TRL's other formats: pairs, labels, prompts, tokens, rollouts, and what they are derived from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.datasets import Job, Report, export
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Trace
from tests.recorded import Call, Recorder, many, siblings, text, tokens, write

FORMATS = ("trl-dpo", "trl-grpo", "trl-kto", "trl-reward", "trl-rollout", "trl-sft-tokens")
Json = dict[str, Any]
ASKED = [text("user", "How high is the tide?")]


def said(content: str) -> list[dict[str, Any]]:
    """A completion of one text."""
    return [text("assistant", content)]


def exported(
    folder: Path, recorder: Recorder, traces: list[Trace], **choices: Any
) -> tuple[Report, list[dict[str, Any]]]:
    """Export everything into one split; return the report and the rows."""
    job = Job(**{"content": str(recorder.store), "validation": 0.0, **choices})
    out = folder / f"out-{job.format}-{len(list(folder.iterdir()))}"
    source = write(folder / f"in-{len(list(folder.iterdir()))}", traces)
    report = export(job, [str(source)], out)
    file = out / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return report, rows


def answers(recorder: Recorder, *given: tuple[str, float], **more: Any) -> list[Trace]:
    """Runs of one task that answer one prompt, each with a reward of its own."""
    return [
        recorder.run(
            number,
            [Call("scout", ASKED, said(words), role="executor", tokens=tokens(words), **more)],
            task="tide",
            reward=reward,
        )
        for number, (words, reward) in enumerate(given, 1)
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_a_thousand_runs_go_through_and_every_call_is_accounted_for(tmp_path, name) -> None:
    """Each of their three thousand calls is in a record, or dropped for a reason."""
    recorder = Recorder(tmp_path)
    report, rows = exported(tmp_path, recorder, many(recorder, 1_000, tasks=100), format=name)
    lineage = next(tmp_path.glob("out-*/lineage.jsonl")).read_text().splitlines()
    used = {turn for line in lineage for turn in json.loads(line)["turns"]}
    assert len(rows) == report.check.records > 0
    assert len(used) + report.check.calls.total() == 3_000
    assert all(row["run_id"] and row["weight"] == 1.0 for row in rows if name != "trl-grpo")


@pytest.mark.parametrize("name", ["trl-kto", "trl-rollout", "trl-sft-tokens"])
def test_parallel_siblings_with_one_prompt_are_a_row_each(tmp_path, name) -> None:
    """Of formats of single calls; each with the reward that names it."""
    recorder = Recorder(tmp_path)
    runs = [siblings(recorder, 1), siblings(recorder, 2)]
    _, rows = exported(tmp_path, recorder, runs, format=name)
    lineage = next(tmp_path.glob("out-*/lineage.jsonl")).read_text().splitlines()
    assert len({row["turn_id"] for row in rows}) == len(rows) == 6
    labels = [json.loads(line)["label"] for line in lineage]
    assert labels == [0.0, 0.5, 1.0] * 2


def test_siblings_make_the_pair_that_their_own_rewards_say(tmp_path: Path) -> None:
    """Not the team's reward, which is the same for all."""
    recorder = Recorder(tmp_path)
    _, (row,) = exported(tmp_path, recorder, [siblings(recorder)], format="trl-dpo")
    assert row["chosen"][0]["content"] == "answer 2"
    assert row["rejected"][0]["content"] == "answer 0"
    assert row["margin"] == 1.0


@pytest.mark.parametrize("name", [one for one in ("trl-sft", *FORMATS) if one != "trl-sft-tokens"])
def test_arguments_of_tools_are_objects_for_chat_templates(tmp_path: Path, name: str) -> None:
    """A text they would write as a text, in quotes; what a model wrote that is no JSON stays."""
    recorder = Recorder(tmp_path)

    def called(arguments: Any) -> Json:
        call = {"type": "tool_call", "id": "c", "name": "look", "arguments": arguments}
        return {"role": "assistant", "parts": [call]}

    read = [*ASKED, called({"what": "tide"})]
    runs = [
        recorder.run(
            number,
            [Call("scout", read, [called(arguments)], role="executor", tokens=tokens("x y"))],
            task="tide",
            reward=reward,
        )
        for number, (arguments, reward) in enumerate([({"how": 1}, 1.0), ('{"how"', 0.0)], 1)
    ]
    _, rows = exported(tmp_path, recorder, runs, format=name)
    found = []
    for row in rows:
        logged = [one for text in row.get("logged_completions", ()) for one in json.loads(text)]
        for column in ("prompt", "completion", "chosen", "rejected"):
            logged += row.get(column, ())
        found += [
            call["function"]["arguments"] for one in logged for call in one.get("tool_calls", ())
        ]
    assert [one for one in found if isinstance(one, str)] == ['{"how"']
    assert {"what": "tide"} in found
    assert {"how": 1} in found


# --- pairs ----------------------------------------------------------------------------


def test_a_pair_has_one_prompt_and_the_best_goes_with_the_worst(tmp_path: Path) -> None:
    """Each call is in one pair at most; what has no partner is told."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("one", 0.1), ("two", 0.9), ("six", 0.2), ("ten", 0.8), ("cat", 0.5))
    report, rows = exported(tmp_path, recorder, runs, format="trl-dpo")
    found = [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows]
    assert found == [("two", "one"), ("ten", "six")]
    assert rows[0]["prompt"] == [{"role": "user", "content": "How high is the tide?"}]
    assert report.check.calls == {"no_margin": 1}


def test_all_pairs_can_be_asked_for(tmp_path: Path) -> None:
    """Every two answers whose rewards differ."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("one", 0.1), ("two", 0.9), ("six", 0.1))
    _, rows = exported(tmp_path, recorder, runs, format="trl-dpo", settings={"pairs": "all"})
    assert [row["margin"] for row in rows] == [0.8, 0.8]


def test_ids_that_servers_make_up_for_calls_of_tools_tell_no_answers_apart(tmp_path: Path) -> None:
    """What was read is the same under other ids, and so is what was called."""
    recorder = Recorder(tmp_path)

    def called(number: str, what: str) -> Json:
        call = {"type": "tool_call", "id": number, "name": "look", "arguments": {"what": what}}
        return {"role": "assistant", "parts": [call]}

    def result(number: str) -> Json:
        answer = {"type": "tool_call_response", "id": number, "response": "3 m"}
        return {"role": "tool", "parts": [answer]}

    def run(number: int, what: str, reward: float) -> Trace:
        first = f"call_{number}"
        read = [*ASKED, called(first, "tide"), result(first)]
        call = Call("scout", read, [called(f"next_{number}", what)], role="executor")
        return recorder.run(number, [call], task="tide", reward=reward)

    runs = [run(1, "moon", 1.0), run(2, "moon", 0.0)]
    report, rows = exported(tmp_path, recorder, runs, format="trl-dpo")
    assert (rows, report.check.calls) == ([], {"no_margin": 2})
    _, (row,) = exported(tmp_path, recorder, [*runs, run(3, "wind", 0.5)], format="trl-grpo")
    assert row["logged_rewards"] == [1.0, 0.0, 0.5]
    _, (row,) = exported(tmp_path, recorder, [runs[0], run(3, "wind", 0.5)], format="trl-dpo")
    assert [one["tool_calls"][0]["id"] for one in (row["prompt"][1], *row["chosen"])] == [
        "call_1",
        "next_1",
    ]


def test_answers_that_differ_in_length_are_no_pair(tmp_path: Path) -> None:
    """Length would be learned; the guard can be set wider, and can be taken off."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("short", 0.0), ("a very long answer indeed " * 9, 1.0))
    report, rows = exported(tmp_path, recorder, runs, format="trl-dpo")
    assert (rows, report.check.calls) == ([], {"confounded": 2})
    assert "trl-dpo cannot be made of these runs: 2 confounded" in str(report.check.refusal)
    _, rows = exported(tmp_path, recorder, runs, format="trl-dpo", settings={"length_ratio": "0"})
    assert len(rows) == 1


def test_a_margin_that_is_too_small_is_no_pair(tmp_path: Path) -> None:
    """`--margin` is the least that counts; equal rewards never do."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("one", 0.5), ("two", 0.6))
    report, _ = exported(tmp_path, recorder, runs, format="trl-dpo", margin=0.2)
    assert report.check.calls == {"no_margin": 2}
    same = answers(recorder, ("one", 0.5), ("two", 0.5))
    report, _ = exported(tmp_path, recorder, same, format="trl-reward")
    assert report.check.calls == {"no_margin": 2}


def test_other_roles_and_other_prompts_are_no_partners(tmp_path: Path) -> None:
    """The state is the whole prompt and the part that was played."""
    recorder = Recorder(tmp_path)
    calls = [
        Call("a", ASKED, said("one"), role="executor", reward=0.0),
        Call("b", ASKED, said("two"), role="critic", reward=1.0),
        Call("a", [text("user", "And now?")], said("six"), role="executor", reward=1.0),
    ]
    runs = [recorder.run(1, calls, task="tide")]
    report, _ = exported(tmp_path, recorder, runs, format="trl-dpo")
    assert report.check.calls == {"one_sample": 3}


# --- orchestrations -------------------------------------------------------------------


def test_whole_orchestrations_win_and_lose_with_their_fields_marked(tmp_path: Path) -> None:
    """Each is the text of who takes part and what waits for what; spans name its fields."""
    recorder = Recorder(tmp_path)
    one = [Call("scout", ASKED, said("one"), role="executor", instance="scout#1")]
    two = [*one, Call("critic", ASKED, said("fine"), role="judge", instance="critic#1", t=2.0)]
    runs = [
        recorder.run(1, one, task="tide", reward=0.2),
        recorder.run(2, two, task="tide", reward=0.9),
    ]
    wanted = {"format": "trl-reward", "settings": {"of": "orchestrations"}}
    report, (row,) = exported(tmp_path, recorder, runs, **wanted)
    won = row["chosen"][1]["content"]
    assert won == (
        "agent lead#1 | role: none | capacity: none | dependency: the task\n"
        "agent scout#1 | role: executor | capacity: fake-1 | dependency: lead#1\n"
        "agent critic#1 | role: judge | capacity: fake-1 | dependency: lead#1\n"
    )
    assert row["chosen"][0] == {"role": "user", "content": "How high is the tide?"}
    fields = [
        (span["agent"], span["field"], won[span["start"] : span["end"]])
        for span in row["chosen_spans"][3:6]
    ]
    assert fields == [
        ("scout#1", "role", "executor"),
        ("scout#1", "capacity", "fake-1"),
        ("scout#1", "dependency", "lead#1"),
    ]
    assert (row["margin"], report.check.loses != ()) == (pytest.approx(0.7), True)


# --- labels ---------------------------------------------------------------------------


def test_an_answer_is_good_from_the_threshold_on(tmp_path: Path) -> None:
    """The label is the call's own."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("one", 0.4), ("two", 0.5), ("six", 0.9))
    _, rows = exported(tmp_path, recorder, runs, format="trl-kto")
    assert [row["label"] for row in rows] == [False, True, True]
    _, rows = exported(tmp_path, recorder, runs, format="trl-kto", settings={"threshold": "0.8"})
    assert [row["label"] for row in rows] == [False, False, True]


def test_a_role_is_labelled_by_what_its_answers_led_to(tmp_path: Path) -> None:
    """Leaves {1, 1} and {1, 0}: the generator's first answer is worth 1, its second a half."""
    recorder = Recorder(tmp_path)
    runs = [
        recorder.run(
            number,
            [
                Call("generator", ASKED, said(answer), role="generator"),
                Call("verifier", [*ASKED, *said(answer)], said(f"{answer} {number}"), role="v"),
            ],
            task="tide",
            reward=reward,
        )
        for number, (answer, reward) in enumerate(
            [("one", 1.0), ("one", 1.0), ("two", 1.0), ("two", 0.0)], 1
        )
    ]
    report, rows = exported(tmp_path, recorder, runs, format="trl-kto", settings={"labels": "malt"})
    of_generator = [
        (row["completion"][0]["content"], row["value"], row["runs"], row["label"])
        for row in rows
        if row["role"] == "generator"
    ]
    assert of_generator == [("one", 1.0, 2, True), ("two", 0.5, 2, False)]
    assert [row["value"] for row in rows if row["role"] == "v"] == [1.0, 1.0, 1.0, 0.0]
    assert report.check.calls == {"duplicate": 2}


# --- prompts, tokens, rollouts --------------------------------------------------------


def test_a_prompt_carries_what_was_answered_and_earned(tmp_path: Path) -> None:
    """One row a prompt, with the logged completions and rewards beside it."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("one", 0.1), ("two", 0.9))
    _, (row,) = exported(tmp_path, recorder, runs, format="trl-grpo")
    assert row["logged_rewards"] == [0.1, 0.9]
    assert [json.loads(one)[0]["content"] for one in row["logged_completions"]] == ["one", "two"]
    assert row["task_id"] == "tide"


@pytest.mark.parametrize("name", ["trl-grpo", "openai-rft"])
def test_a_run_that_asked_one_prompt_several_times_counts_once(tmp_path: Path, name: str) -> None:
    """In the weight, which says for how many runs the prompt stands; one label is enough."""
    recorder = Recorder(tmp_path)
    calls = [Call("scout", ASKED, said(words), reward=1.0) for words in ("one", "two")]
    bare = [] if name == "trl-grpo" else [Call("scout", ASKED, said("six"))]
    run = recorder.run(1, [*bare, *calls], task="tide", weight=4.0)
    report, _ = exported(tmp_path, recorder, [run], format=name)
    (file,) = tmp_path.glob("out-*/lineage.jsonl")
    (row,) = map(json.loads, file.read_text().splitlines())
    assert (row["weight"], row["label_missing"]) == (4.0, None)
    assert not report.check.unlabelled


def test_tokens_are_those_that_were_sampled_with_their_mask(tmp_path: Path) -> None:
    """Forced tokens of a completion are 0 in the mask, and so is the prompt."""
    recorder = Recorder(tmp_path)
    forced = Tokens(provenance="exact", prompt_ids=(1, 2), ids=(3, 4, 5), mask=(1, 0, 1))
    runs = [recorder.run(1, [Call("scout", ASKED, said("x"), tokens=forced)])]
    _, (row,) = exported(tmp_path, recorder, runs, format="trl-sft-tokens")
    assert row["input_ids"] == [1, 2, 3, 4, 5]
    assert row["completion_mask"] == [0, 0, 1, 0, 1]


def test_a_rollout_has_its_advantage_log_probabilities_and_version(tmp_path: Path) -> None:
    """Aligned with the ids; the advantage is within the task's and role's group."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("a b", 0.0), ("c d", 1.0), policy_version="step-400")
    _, rows = exported(tmp_path, recorder, runs, format="trl-rollout", settings={"scale": "none"})
    first = rows[0]
    assert first["input_ids"] == [1, 2, 3, 10, 11]
    assert first["completion_mask"] == [0, 0, 0, 1, 1]
    assert first["old_log_probs"] == [0.0, 0.0, 0.0, -0.5, -0.5]
    assert [row["advantage"] for row in rows] == [-0.5, 0.5]
    assert (first["model_version"], first["policy_version"]) == (400, "step-400")
    assert first["metrics"] == {"reward": 0.0, "group_mean": 0.5}
    assert rows[0]["group_id"] == rows[1]["group_id"]


def test_a_role_has_a_baseline_of_its_own_in_which_each_run_counts_once(tmp_path: Path) -> None:
    """Three calls of a sub-agent in one run do not outweigh one call in the other."""
    recorder = Recorder(tmp_path)

    def run(number: int, subs: list[float], main: float) -> Trace:
        calls = [
            Call("sub", ASKED, said("s"), role="sub", reward=one, tokens=tokens("s"))
            for one in subs
        ]
        calls.append(Call("main", ASKED, said("m"), role="main", reward=main, tokens=tokens("m")))
        return recorder.run(number, calls, task="tide")

    runs = [run(1, [0.0, 0.0, 0.3], 5.0), run(2, [0.5], 7.0)]
    _, rows = exported(tmp_path, recorder, runs, format="trl-rollout", settings={"scale": "none"})
    of_sub = [row for row in rows if row["role"] == "sub"]
    assert of_sub[0]["metrics"]["group_mean"] == pytest.approx(0.3)
    assert [row["advantage"] for row in of_sub] == pytest.approx([-0.3, -0.3, 0.0, 0.2])
    assert [row["calls_in_run"] for row in of_sub] == [3, 3, 3, 1]
    assert [row["advantage"] for row in rows if row["role"] == "main"] == [-1.0, 1.0]
    assert len({row["group_id"] for row in rows}) == 2


@pytest.mark.parametrize("most", [1.0, 1e200])
def test_advantages_of_calls_are_scaled_by_what_calls_earned(tmp_path: Path, most: float) -> None:
    """Runs that are equal on average, with calls that are not, have no deviation of nought."""
    recorder = Recorder(tmp_path)
    runs = [
        recorder.run(
            number,
            [
                Call("sub", ASKED, said("s"), role="sub", reward=one, tokens=tokens("s"))
                for one in (0.0, most)
            ],
            task="tide",
        )
        for number in (1, 2)
    ]
    _, rows = exported(tmp_path, recorder, runs, format="trl-rollout")
    assert [row["advantage"] for row in rows] == pytest.approx([-1.0, 1.0] * 2, abs=1e-3)


def test_runs_older_than_another_agents_update_are_stale(tmp_path: Path) -> None:
    """The agent's own update does not make its calls stale; the other's does."""
    recorder = Recorder(tmp_path)

    def run(number: int, a: str, b: str) -> Trace:
        calls = [
            Call(name, ASKED, said("x"), tokens=tokens("x"), policy_version=version)
            for name, version in (("a", a), ("b", b))
        ]
        return recorder.run(number, calls, task="tide", reward=float(number))

    runs = [run(1, "2", "1"), run(2, "2", "1"), run(3, "1", "1"), run(4, "2", "1")]
    report, rows = exported(
        tmp_path,
        recorder,
        runs,
        format="trl-rollout",
        settings={"current": "a=2,b=1", "groups": "agent"},
    )
    assert report.check.calls == {"stale": 1}
    kept = [row["agent"] + row["run_id"][31] for row in rows]
    assert kept == ["a1", "a2", "a3", "a4", "b1", "b2", "b4"]


def test_the_newest_versions_are_those_that_the_runs_show(tmp_path: Path) -> None:
    """An update is the first run with a version; the stage counts updates of any agent."""
    recorder = Recorder(tmp_path)

    def run(number: int, task: str, **versions: str) -> Trace:
        calls = [
            Call(name, ASKED, said("x"), tokens=tokens("x"), policy_version=version)
            for name, version in versions.items()
        ]
        return recorder.run(number, calls, task=task, reward=float(number))

    runs = [
        run(1, "tide", a="1", b="1"),
        run(2, "moon", a="2", b="1"),
        run(3, "tide", a="1", b="1"),  # begun late with the old version: no update
        run(4, "tide", a="2", b="2"),
        run(5, "tide", a="2", b="2"),
    ]
    report, rows = exported(
        tmp_path, recorder, runs, format="trl-rollout", settings={"groups": "agent"}
    )
    stages = {row["run_id"][31]: row["stage"] for row in rows}
    assert stages == {"1": 0, "3": 1, "4": 2, "5": 2}
    assert "stale" not in report.check.calls
    report, rows = exported(
        tmp_path,
        recorder,
        runs,
        format="trl-rollout",
        settings={"groups": "agent", "current": "newest"},
    )
    assert report.check.calls == {"stale": 5, "one_sample": 1}
    assert [row["agent"] + row["run_id"][31] for row in rows] == ["a4", "a5", "b4", "b5"]


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("trl-sft-tokens", {"tokens": Tokens()}, "no_token_ids"),
        ("trl-rollout", {"tokens": tokens("x", logprobs=False)}, "no_logprobs"),
        (
            "trl-sft-tokens",
            {"tokens": Tokens(provenance="retokenised", prompt_ids=(1,), ids=(2,))},
            "retokenised",
        ),
        ("trl-dpo", {"with_content": False}, "no_content"),
    ],
)
def test_a_format_refuses_what_it_cannot_be_made_of(tmp_path, name, change, reason) -> None:
    """It says which and how many, and nothing is written."""
    recorder = Recorder(tmp_path)
    call = {"agent": "scout", "prompt": ASKED, "completion": said("x"), **change}
    runs = [recorder.run(n, [Call(**call)], task="tide", reward=float(n)) for n in (1, 2)]
    report, _ = exported(tmp_path, recorder, runs, format=name)
    assert str(report.check.refusal).startswith(
        f"{name} cannot be made of these runs: 2 {reason}: "
    )
    assert not list(tmp_path.glob("out-*"))
    assert not list(tmp_path.glob(".out-*"))


def test_a_format_of_groups_refuses_runs_without_a_task(tmp_path: Path) -> None:
    """And one run of a task alone has nothing to be compared with."""
    recorder = Recorder(tmp_path)
    call = Call("scout", ASKED, said("x"), tokens=tokens("x"))
    nameless = [recorder.run(1, [call], reward=1.0)]
    report, _ = exported(tmp_path, recorder, nameless, format="trl-dpo")
    assert report.check.runs == {"no_task_id": 1}
    alone = [recorder.run(1, [call], task="tide", reward=1.0)]
    report, _ = exported(tmp_path, recorder, alone, format="trl-rollout")
    assert report.check.calls == {"one_sample": 1}


def test_a_trainee_learns_from_another_model_only_with_log_probabilities(tmp_path: Path) -> None:
    """Without them there is nothing to correct with."""
    recorder = Recorder(tmp_path)
    runs = answers(recorder, ("a", 0.0), ("b", 1.0))
    wanted = {"format": "trl-rollout", "trainee": "mine"}
    report, rows = exported(tmp_path, recorder, runs, **wanted)
    assert len(rows) == 2
    call = Call("scout", ASKED, said("x"), tokens=tokens("x", logprobs=False))
    bare = [recorder.run(n, [call], task="tide", reward=float(n)) for n in (1, 2)]
    report, _ = exported(tmp_path, recorder, bare, **wanted)
    assert report.check.calls.keys() <= {"no_logprobs", "other_model"}
    assert report.check.refusal is not None


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("trl-reward", {"of": "poems"}),
        ("trl-kto", {"labels": "poems"}),
        ("trl-kto", {"threshold": "high"}),
        ("trl-kto", {"threshold": "nan"}),
        ("trl-dpo", {"pairs": "some"}),
        ("trl-dpo", {"length_ratio": "long"}),
        ("trl-rollout", {"scale": "poems"}),
        ("rllm", {"correct": "yes"}),
        ("trl-rollout", {"groups": "poems"}),
        ("trl-rollout", {"current": "poems"}),
        ("trl-sft", {"color": "red"}),
    ],
)
def test_a_wrong_setting_says_what_must_hold(tmp_path: Path, name, settings) -> None:
    """Before anything is read, so also where nothing is left for the setting to act on."""
    recorder = Recorder(tmp_path)
    for runs in ([siblings(recorder)], []):
        with pytest.raises(ConfigError, match="must be"):
            exported(tmp_path, recorder, runs, format=name, settings=settings)
    assert not list(tmp_path.glob(".out-*"))
