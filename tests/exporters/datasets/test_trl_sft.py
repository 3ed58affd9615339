"""`trl-sft`: a row a call, prompt and completion apart, with tools and lineage."""

from __future__ import annotations

import json
from pathlib import Path

from orchtrace_otel.datasets import Job, export
from tests.recorded import LOOK, Call, Recorder, many, siblings, text, write


def rows(path: Path) -> list[dict[str, object]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def job(recorder: Recorder, **choices: object) -> Job:
    """A job of this format with everything in one split."""
    return Job(format="trl-sft", content=str(recorder.store), validation=0.0, **choices)


def test_a_call_with_tools_is_a_row_that_holds_what_was_read_and_written(tmp_path: Path) -> None:
    """Messages have the shape that chat templates read, and the row says where it comes from."""
    recorder = Recorder(tmp_path)
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}}
    result = {"type": "tool_call_response", "id": "c1", "response": "3 m"}
    trace = recorder.run(
        1,
        [
            Call(
                "scout",
                [
                    text("user", "How high is the tide?"),
                    {"role": "assistant", "parts": [call]},
                    {"role": "tool", "parts": [result]},
                ],
                [text("assistant", "Three metres.")],
                tools=[LOOK],
            )
        ],
        task="tide",
        weight=4.0,
    )
    report = export(job(recorder), [str(write(tmp_path / "in", [trace]))], tmp_path / "out")

    assert (report.check.refusal, report.splits) == (None, {"train": 1})
    (row,) = rows(tmp_path / "out" / "train.jsonl")
    assert row == {
        "prompt": [
            {"role": "user", "content": "How high is the tide?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": {"what": "tide"}},
                    }
                ],
            },
            {"role": "tool", "content": "3 m", "tool_call_id": "c1"},
        ],
        "completion": [{"role": "assistant", "content": "Three metres."}],
        "tools": json.dumps(
            [
                {
                    "type": "function",
                    "function": {key: LOOK[key] for key in ("name", "description", "parameters")},
                }
            ],
            separators=(",", ":"),
        ),
        "run_id": trace.trace_id,
        "turn_id": trace.turns[0].id,
        "weight": 4.0,
        "label_missing": "no_reward",
    }


def test_parallel_siblings_with_one_prompt_are_a_row_each_with_their_own_reward(
    tmp_path: Path,
) -> None:
    """Nothing is collapsed, and a reward stays on the call that it names."""
    recorder = Recorder(tmp_path)
    trace = siblings(recorder)
    export(job(recorder), [str(write(tmp_path / "in", [trace]))], tmp_path / "out")

    said = [row["completion"][0]["content"] for row in rows(tmp_path / "out" / "train.jsonl")]
    assert said == ["answer 0", "answer 1", "answer 2"]
    labels = [row["label"] for row in rows(tmp_path / "out" / "lineage.jsonl")]
    assert labels == [0.0, 0.5, 1.0]


def test_what_is_left_out_is_counted_by_its_reason(tmp_path: Path) -> None:
    """Calls without content, cut ones and those a filter leaves out are told apart."""
    recorder = Recorder(tmp_path)
    said = [text("assistant", "yes")]
    ask = [text("user", "Is it?")]
    calls = [
        Call("scout", ask, said),
        Call("scout", ask, said, with_content=False),
        Call("scout", ask, said, finish_reason="length"),
        Call("other", ask, said),
        Call("scout", ask, []),
    ]
    folder = write(tmp_path / "in", [recorder.run(1, calls)])
    wanted = job(recorder, agents=frozenset({"scout"}), keep_truncated=False)
    report = export(wanted, [str(folder)], None)

    assert report.check.records == 1
    assert report.check.calls == {
        "no_content": 1,
        "truncated": 1,
        "filtered": 1,
        "no_completion": 1,
    }
    assert not (tmp_path / "out").exists()


def test_a_thousand_runs_go_through_and_none_is_lost(tmp_path: Path) -> None:
    """Three calls a run, in two splits that share no task."""
    recorder = Recorder(tmp_path)
    folder = write(tmp_path / "in", many(recorder, 1_000))
    choices = Job(format="trl-sft", content=str(recorder.store), validation=0.2)
    report = export(choices, [str(folder)], tmp_path / "out")

    assert sum(report.splits.values()) == report.check.records == 3_000
    lineage = rows(tmp_path / "out" / "lineage.jsonl")
    tasks = {
        split: {row["group"] for row in lineage if row["split"] == split}
        for split in ("train", "validation")
    }
    assert all(tasks.values())
    assert tasks["train"].isdisjoint(tasks["validation"])
