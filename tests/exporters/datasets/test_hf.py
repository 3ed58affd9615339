"""`hf`: Parquet of one schema with all that is known of a call."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from orchtrace_datasets.hf import schema
from orchtrace_otel.datasets import Job, export
from tests.recorded import LOOK, Call, Recorder, many, siblings, text, tokens, write


def test_a_row_holds_the_call_with_its_content(tmp_path: Path) -> None:
    """Messages are lists, what has no fixed shape is JSON, tokens align, labels have an origin."""
    recorder = Recorder(tmp_path)
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}}
    trace = recorder.run(
        1,
        [
            Call(
                "scout",
                [text("user", "How high is the tide?")],
                [{"role": "assistant", "parts": [call]}],
                role="executor",
                tools=[LOOK],
                tokens=tokens("look it up"),
                policy_version="step-7",
                reward=0.5,
            )
        ],
        task="tide",
        reward=1.0,
        weight=3.0,
    )
    job = Job(format="hf", content=str(recorder.store), validation=0.0)
    report = export(job, [str(write(tmp_path / "in", [trace]))], tmp_path / "out")

    assert report.check.refusal is None
    table = pq.read_table(tmp_path / "out" / "data" / "train-00000-of-00001.parquet")
    assert table.schema == schema()
    (row,) = table.to_pylist()
    nothing = {"reasoning_content": None, "name": None, "tool_call_id": None}
    function = {"name": "look", "arguments": '{"what": "tide"}'}
    assert row == {
        "run_id": trace.trace_id,
        "turn_id": trace.turns[0].id,
        "task_id": "tide",
        "agent": "scout",
        "instance": "scout#1",
        "role": "executor",
        "parent_agent": "lead",
        "model": "fake-1",
        "policy_version": "step-7",
        "finish_reason": "stop",
        "index": 0,
        "agent_index": 0,
        "prompt": [
            {"role": "user", "content": "How high is the tide?", "tool_calls": None, **nothing}
        ],
        "completion": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                **nothing,
            }
        ],
        "tools": '[{"function":{"description":"Look something up.","name":"look","parameters":'
        '{"properties":{"what":{"type":"string"}},"type":"object"}},"type":"function"}]',
        "sampling": '{"temperature":0.7}',
        "prompt_ids": [1, 2, 3],
        "response_ids": [10, 11, 12],
        "response_mask": [1, 1, 1],
        "logprobs": [-0.5, -0.5, -0.5],
        "token_provenance": "exact",
        "label": 0.5,
        "label_component": "task",
        "label_unit": "turn",
        "label_missing": None,
        "rewards": '{"team":{"task":1.0},"turn":{"task":0.5}}',
        "cost": 12.0,
        "weight": 3.0,
    }


def test_a_thousand_runs_are_two_splits_with_one_schema(tmp_path: Path) -> None:
    """Also where the one has tools or tokens and the other has not; nothing is lost."""
    recorder = Recorder(tmp_path)
    runs = [*many(recorder, 1_000), siblings(recorder, 2_001)]
    job = Job(format="hf", content=str(recorder.store), validation=0.2)
    report = export(job, [str(write(tmp_path / "in", runs))], tmp_path / "out")
    tables = {
        file.name.partition("-")[0]: pq.read_table(file)
        for file in (tmp_path / "out" / "data").iterdir()
    }
    assert {name: len(table) for name, table in tables.items()} == dict(report.splits)
    assert sum(report.splits.values()) == 3_003
    assert all(table.schema == schema() for table in tables.values())
    tasks = {name: set(table["task_id"].to_pylist()) for name, table in tables.items()}
    assert tasks["train"].isdisjoint(tasks["validation"])
