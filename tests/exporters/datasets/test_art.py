"""`art`: groups of trajectories with their calls as they were exchanged.

Shapes are those of openpipe-art 0.5.23, `art/trajectories/__init__.py`;
tests/trainers/test_art.py asks ART itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.exporting import exported, lineage
from tests.nested import nested
from tests.recorded import LOOK, Call, Recorder, siblings, text, tokens


def test_an_agents_calls_are_exchanges_of_one_trajectory(tmp_path: Path) -> None:
    """Ids and log probabilities stand where ART looks for exact ones."""
    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, rows = exported(tmp_path, store, [first, second], format="art")
    assert [row["metadata"] for row in rows] == [
        {"task_id": "tide", "group": name, "runs": 2} for name in ("executor", "planner")
    ]
    lead = max(rows[1]["trajectories"], key=lambda one: one["reward"])
    one, two = lead["exchanges"]["chat_completions"]
    assert two["request"]["messages"][:2] == [
        {"role": "user", "content": "How high is the tide?"},
        {"role": "assistant", "content": "ask two"},
    ]
    assert two["response"]["prompt_token_ids"] == [1, 2, 3, 4, 5, 6, 7]
    (choice,) = two["response"]["choices"]
    assert (choice["token_ids"], choice["message"]["content"]) == ([12, 13], "high")
    assert [(said["token"], said["logprob"]) for said in choice["logprobs"]["content"]] == [
        ("token_id:12", -0.12),
        ("token_id:13", -0.13),
    ]
    assert one["start_time"] <= one["end_time"] <= two["start_time"]
    assert lead["metadata"]["agent"] == "lead"


def test_parallel_siblings_are_a_trajectory_each_with_their_own_reward(tmp_path: Path) -> None:
    """One group, three trajectories, though all read the same."""
    recorder = Recorder(tmp_path)
    _, (row,) = exported(tmp_path, recorder.store, [siblings(recorder)], format="art")
    assert [one["reward"] for one in row["trajectories"]] == [0.0, 0.5, 1.0]
    assert len(lineage(tmp_path)[0]["turns"]) == 3


def test_tools_versions_and_texts_are_kept_without_tokens_on_request(tmp_path: Path) -> None:
    """Then ART makes the tokens itself, and calls them no exact ones."""
    recorder = Recorder(tmp_path)
    call = {"type": "tool_call", "id": "c", "name": "look", "arguments": {"what": "tide"}}
    runs = [
        recorder.run(
            number,
            [
                Call(
                    "a",
                    [text("user", "?")],
                    [{"role": "assistant", "parts": [call]}],
                    tools=[LOOK],
                    policy_version=f"step-{number}",
                    finish_reason="tool_calls",
                )
            ],
            task="tide",
            reward=float(number),
        )
        for number in (1, 2)
    ]
    report, _ = exported(tmp_path, recorder.store, runs, format="art")
    assert report.check.calls == {"no_token_ids": 2}
    choices = {"format": "art", "settings": {"tokens": "optional"}}
    _, (row,) = exported(tmp_path, recorder.store, runs, **choices)
    first = row["trajectories"][0]
    assert (first["initial_policy_version"], first["final_policy_version"]) == (1, 1)
    (exchange,) = first["exchanges"]["chat_completions"]
    assert exchange["request"]["tools"][0]["function"]["name"] == "look"
    (choice,) = exchange["response"]["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"what": "tide"}'
    assert "token_ids" not in choice
    assert "prompt_token_ids" not in exchange["response"]


def test_another_model_needs_log_probabilities(tmp_path: Path) -> None:
    """A trainee learns off-policy from what it can correct for, and from nothing else."""
    recorder = Recorder(tmp_path)
    runs = [
        recorder.run(
            number,
            [
                Call(
                    "a",
                    [text("user", "?")],
                    [text("assistant", "x")],
                    tokens=tokens("x", logprobs=number < 3),
                )
            ],
            task="tide",
            reward=float(number),
        )
        for number in (1, 2, 3)
    ]
    report, (row,) = exported(tmp_path, recorder.store, runs, format="art", trainee="mine")
    assert report.check.calls == {"other_model": 1}
    assert len(row["trajectories"]) == 2


def test_a_thousand_runs_are_a_group_for_each_task_and_role(thousand, tmp_path: Path) -> None:
    """And every call is in one of them."""
    store, made = thousand
    report, rows = exported(tmp_path, store, made, format="art")
    assert (len(rows), report.check.calls) == (300, {})
    assert sum(len(row["trajectories"]) for row in rows) == 3_000


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        *((cut, "length") for cut in ("MAX_TOKENS", "model_length", "length", "max_tokens")),
        *((cut, "length") for cut in ("max_output_tokens", "model_context_window_exceeded")),
        ("function_calls", "tool_calls"),
    ],
)
@pytest.mark.parametrize("name", ["art", "verifiers"])
def test_why_an_answer_ended_is_told_in_the_trainers_word(
    tmp_path: Path, name: str, reason: str, word: str
) -> None:
    """Whatever the provider, or AutoGen, calls it."""
    recorder = Recorder(tmp_path)
    call = {"type": "tool_call", "id": "c", "name": "look", "arguments": {}}
    said = [call] if word == "tool_calls" else [{"type": "text", "content": "x"}]
    message = {"role": "assistant", "parts": said}
    runs = [
        recorder.run(
            number,
            [
                Call(
                    "a",
                    [text("user", "?")],
                    [message],
                    tokens=tokens("x"),
                    finish_reason=reason,
                )
            ],
            task="tide",
            reward=float(number),
        )
        for number in (1, 2)
    ]
    _, rows = exported(tmp_path, recorder.store, runs, format=name)
    assert f'"finish_reason": "{word}"' in json.dumps(rows)
