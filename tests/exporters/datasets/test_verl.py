"""`verl`: prompts with what was earned, or rollouts, in Parquet.

Columns are those of verl 0.9.1, `verl/utils/dataset/rl_dataset.py` and
`verl/experimental/reward_loop/reward_manager/naive.py`; fields of a rollout those of
`AgentLoopOutput` in `verl/experimental/agent_loop/agent_loop.py`; tests/trainers/test_verl.py
asks verl itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from orchtrace_otel.datasets import Report
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Trace
from tests.exporting import exported, lineage
from tests.nested import nested
from tests.recorded import LOOK, Call, Recorder, many, siblings, text

Json = dict[str, Any]
ROLLOUTS = {"rows": "rollouts"}


def rows(folder: Path, *given: Any, **choices: Any) -> tuple[Report, list[Json]]:
    """Export and read Parquet back."""
    report, _ = exported(folder, *given, format="verl", **choices)
    files = sorted(folder.glob("out-*/train.parquet"), key=lambda file: file.stat().st_mtime_ns)
    assert not list(folder.glob("out-*/.*"))
    return report, pq.read_table(files[-1]).to_pylist() if files else []


def tagged(trace: Trace, **tags: str) -> Trace:
    """The same run with the user's own keys."""
    first, *others = trace.events
    begun = Event(first.id, first.t, first.type, first.agent, {**first.keys, "tags": tags})
    return replace(trace, events=(begun, *others))


def test_a_prompt_is_a_row_with_all_that_was_answered_and_earned(tmp_path: Path) -> None:
    """The function of rewards gets the logged ones, by call, in `extra_info`."""
    recorder = Recorder(tmp_path)
    report, (row,) = rows(tmp_path, recorder.store, [siblings(recorder, 1)])
    assert row["data_source"] == "orchtrace"
    assert row["prompt"] == [{"role": "user", "content": "How high is the tide?"}]
    assert row["reward_model"] == {"style": "rule", "ground_truth": ""}
    told = row["extra_info"]
    assert told["logged_rewards"] == [0.0, 0.5, 1.0]
    assert [len(told[name]) for name in ("logged_completions", "turn_ids", "run_ids")] == [3] * 3
    assert (told["task_id"], told["agent"], told["role"]) == ("tide", "scout", "executor")
    assert "agent_name" not in row
    assert report.check.calls == {}
    assert lineage(tmp_path)[0]["turns"] == told["turn_ids"]


def test_right_answers_loops_and_sources_are_where_verl_looks_for_them(tmp_path: Path) -> None:
    """The right answer is a tag of the run."""
    recorder = Recorder(tmp_path)
    settings = {"ground_truth": "answer", "agent_loop": "tool_agent", "data_source": "tides"}
    run = tagged(siblings(recorder, 1), answer="3 m")
    _, (row,) = rows(tmp_path, recorder.store, [run], settings=settings)
    assert row["reward_model"]["ground_truth"] == "3 m"
    assert (row["agent_name"], row["data_source"]) == ("tool_agent", "tides")


def test_messages_have_the_keys_that_some_message_has_and_no_others(tmp_path: Path) -> None:
    """Templates ask whether a message has `tool_calls`: a column that is always there says yes."""
    recorder = Recorder(tmp_path)
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}}
    seen = {"type": "tool_call_response", "id": "c1", "response": "3 m"}
    prompt = [
        text("user", "?"),
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [seen]},
    ]
    calls = [Call("a", prompt, [text("assistant", "x")], tools=[LOOK])]
    run = recorder.run(1, calls, task="t", reward=1.0)
    _, (row,) = rows(tmp_path, recorder.store, [run])
    assert [set(message) for message in row["prompt"]] == [
        {"role", "content", "tool_calls", "tool_call_id"}
    ] * 3
    assert row["prompt"][1]["tool_calls"] == [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "look", "arguments": '{"what": "tide"}'},
        }
    ]
    assert row["prompt"][0]["tool_calls"] is None


def test_a_rollout_is_a_conversation_with_mask_reward_and_versions(tmp_path: Path) -> None:
    """What others wrote in between is masked, and has no log probability."""
    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, made = rows(tmp_path, store, [first, second], settings=ROLLOUTS)
    lead = [row for row in made if row["extra_fields"]["agent"] == "lead"]
    assert [row["reward_score"] for row in lead] in ([0.0, 1.0], [1.0, 0.0])
    assert lead[0]["prompt_ids"] == [1, 2, 3]
    assert lead[0]["response_ids"] == [4, 5, 6, 7, 12, 13]
    assert lead[0]["response_mask"] == [1, 1, 0, 0, 1, 1]
    assert lead[0]["response_logprobs"] == [-0.04, -0.05, 0.0, 0.0, -0.12, -0.13]
    assert lead[0]["num_turns"] == 4
    assert lead[0]["extra_fields"]["uid"] == "tide:planner"


def test_siblings_are_rollouts_with_their_own_reward(tmp_path: Path) -> None:
    """Each in one group, with the version that wrote it."""
    recorder = Recorder(tmp_path)
    made = [siblings(recorder, 901), *many(recorder, 8, tasks=2)]
    _, found = rows(tmp_path, recorder.store, made, settings=ROLLOUTS)
    scouts = [row for row in found if row["extra_fields"]["agent"] == "scout"]
    assert [row["reward_score"] for row in scouts] == [0.0, 0.5, 1.0]
    steps = {row["extra_fields"]["max_global_steps"] for row in found if row not in scouts}
    assert steps == {0, 1, 2, 3}


def test_a_thousand_runs_go_through_both_ways(thousand, tmp_path: Path) -> None:
    """Each call is in a row; rows of calls without tokens are refused."""
    store, made = thousand
    report, found = rows(tmp_path, store, made)
    assert sum(len(row["extra_info"]["turn_ids"]) for row in found) == 3_000
    assert len({row["extra_info"]["index"] for row in found}) == len(found) == 300
    report, found = rows(tmp_path, store, made, settings=ROLLOUTS)
    assert (len(found), report.check.calls) == (3_000, {})


def test_rollouts_of_calls_without_tokens_are_refused(tmp_path: Path) -> None:
    """Prompts need none; any other kind of row is none."""
    recorder = Recorder(tmp_path)
    calls = [Call("a", [text("user", "?")], [text("assistant", "x")])]
    bare = [recorder.run(1, calls, task="t", reward=1.0)]
    report, _ = exported(tmp_path, recorder.store, bare, format="verl", settings=ROLLOUTS)
    assert report.check.calls == {"no_token_ids": 1}
    assert report.check.refusal is not None
    report, _ = rows(tmp_path, recorder.store, bare)
    assert report.check.records == 1
    with pytest.raises(ConfigError, match="rows must be one of prompts, rollouts"):
        rows(tmp_path, recorder.store, bare, settings={"rows": "x"})
