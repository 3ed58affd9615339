"""`openai-dpo` and `openai-rft`: lines in the shapes that OpenAI and Azure publish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchtrace_otel.model import Trace
from tests.exporting import exported, lineage
from tests.recorded import LOOK, Call, Recorder, many, siblings, text

ASKED = [
    text("system", "You look things up."),
    {**text("user", "How high is the tide?"), "name": "Ann Lee"},
]
TEXT = {"type": "string"}
TOOL_CALL = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "properties": {"name": TEXT, "arguments": TEXT},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        },
    },
    "required": ["id", "type", "function"],
    "additionalProperties": False,
}
MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
        "content": TEXT,
        "name": {"type": "string", "pattern": r"^[^\s<|\\/>]+$"},
        "tool_calls": {"type": "array", "items": TOOL_CALL, "minItems": 1},
        "tool_call_id": TEXT,
    },
    "required": ["role", "content"],
    "additionalProperties": False,
}
ANSWER = {"allOf": [MESSAGE, {"properties": {"role": {"const": "assistant"}}}]}
TOOL = {
    "type": "object",
    "properties": {"type": {"const": "function"}, "function": {"type": "object"}},
    "required": ["type", "function"],
    "additionalProperties": False,
}
DPO = {
    "type": "object",
    "properties": {
        "input": {
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": MESSAGE, "minItems": 1},
                "tools": {"type": "array", "items": TOOL},
                "parallel_tool_calls": {"type": "boolean"},
            },
            "required": ["messages"],
            "additionalProperties": False,
        },
        "preferred_output": {"type": "array", "items": ANSWER, "minItems": 1, "maxItems": 1},
        "non_preferred_output": {"type": "array", "items": ANSWER, "minItems": 1, "maxItems": 1},
    },
    "required": ["input", "preferred_output", "non_preferred_output"],
    "additionalProperties": False,
}
"""Read in OpenAI's guide `direct-preference-optimization` and its reference of chat messages."""
RFT = {
    "type": "object",
    "properties": {
        "messages": {"type": "array", "items": MESSAGE, "minItems": 1},
        "tools": {"type": "array", "items": TOOL, "minItems": 1},
    },
    "required": ["messages"],
}
"""Read in OpenAI's API description: `FineTuneReinforcementRequestInput` of version 2.3.0."""
SHAPES = {"openai-dpo": DPO, "openai-rft": RFT}


def answers(recorder: Recorder, start: int = 1) -> list[Trace]:
    """Three runs of one task: a thoughtful answer, a call of a tool, and a short answer."""
    thought = {"type": "reasoning", "content": "Tides turn."}
    look = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}}
    given: list[tuple[list[Any], float]] = [
        ([{"role": "assistant", "parts": [thought, *text("", "Three metres now.")["parts"]]}], 1.0),
        ([{"role": "assistant", "parts": [look]}], 0.5),
        ([text("assistant", "Two metres, I think.")], 0.0),
    ]
    return [
        recorder.run(
            number,
            [Call("scout", ASKED, said, role="executor", tools=[LOOK])],
            task="tide",
            reward=reward,
        )
        for number, (said, reward) in enumerate(given, start)
    ]


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_lines_have_the_published_shape(name: str, tmp_path: Path) -> None:
    """Of runs with tools and thoughts, of parallel siblings, and of a thousand runs."""
    recorder = Recorder(tmp_path)
    runs = [*many(recorder, 1_000), siblings(recorder, 2_001), *answers(recorder, 3_001)]
    report, rows = exported(tmp_path, recorder.store, runs, format=name)
    assert report.check.refusal is None
    assert len(rows) == report.check.records > 50
    shape = jsonschema.Draft202012Validator(SHAPES[name])
    for row in rows:
        shape.validate(row)
    used = {turn for line in lineage(tmp_path) for turn in line["turns"]}
    assert len(used) + report.check.calls.total() == 3_006


def test_a_pair_holds_the_better_and_the_worse_answer(tmp_path: Path) -> None:
    """Without what was thought, and without a name that the API would refuse."""
    recorder = Recorder(tmp_path)
    report, rows = exported(tmp_path, recorder.store, answers(recorder), format="openai-dpo")
    function = {key: LOOK[key] for key in ("name", "description", "parameters")}
    assert rows == [
        {
            "input": {
                "messages": [
                    {"role": "system", "content": "You look things up."},
                    {"role": "user", "content": "How high is the tide?"},
                ],
                "tools": [{"type": "function", "function": function}],
                "parallel_tool_calls": True,
            },
            "preferred_output": [{"role": "assistant", "content": "Three metres now."}],
            "non_preferred_output": [{"role": "assistant", "content": "Two metres, I think."}],
        }
    ]
    assert report.check.calls == {"no_margin": 1}
    (line,) = lineage(tmp_path)
    assert (line["label"], len(line["turns"]), line["group"]) == (1.0, 2, "tide")


@pytest.mark.parametrize(
    ("name", "records", "dropped"),
    [("openai-dpo", 0, {"unwritable": 1, "no_margin": 2}), ("openai-rft", 1, {"unwritable": 1})],
)
def test_an_answer_is_what_it_says_and_not_what_was_thought(
    tmp_path: Path, name: str, records: int, dropped: dict[str, int]
) -> None:
    """One of thoughts alone would be empty; two that differ in these alone would be one twice."""
    recorder = Recorder(tmp_path)
    thoughts = [{"type": "reasoning", "content": word} for word in ("hm", "so", "oh")]
    said = {"type": "text", "content": "3 m"}
    given = [([thoughts[0]], 1.0), ([thoughts[1], said], 0.5), ([thoughts[2], said], 0.0)]
    runs = [
        recorder.run(
            number,
            [Call("scout", ASKED, [{"role": "assistant", "parts": parts}])],
            task="tide",
            reward=reward,
        )
        for number, (parts, reward) in enumerate(given, 1)
    ]
    report, rows = exported(tmp_path, recorder.store, runs, format=name)
    assert (len(rows), report.check.calls) == (records, dropped)
    assert all(row["logged_answers"] == ["3 m", "3 m"] for row in rows)
    assert all(row["reference_answer"] == "3 m" for row in rows)


def test_a_prompt_has_what_graders_reach_beside_it(tmp_path: Path) -> None:
    """The best answer as reference, all answers, and what they earned; it is there once."""
    recorder = Recorder(tmp_path)
    _, (row,) = exported(tmp_path, recorder.store, answers(recorder), format="openai-rft")
    assert row["messages"][-1] == {"role": "user", "content": "How high is the tide?"}
    assert (row["reference_answer"], row["reference_reward"]) == ("Three metres now.", 1.0)
    assert row["logged_rewards"] == [1.0, 0.5, 0.0]
    assert row["logged_answers"][1] == (
        '[{"id":"c1","type":"function",'
        '"function":{"name":"look","arguments":"{\\"what\\": \\"tide\\"}"}}]'
    )
    assert (row["task_id"], row["agent"], row["role"]) == ("tide", "scout", "executor")


def test_a_prompt_that_ends_with_another_than_a_user_is_dropped(tmp_path: Path) -> None:
    """The platforms refuse it; where there is no other the export refuses, and says why."""
    recorder = Recorder(tmp_path)
    prompt = [*ASKED, text("assistant", "Wait.")]
    trace = recorder.run(1, [Call("scout", prompt, [text("assistant", "3 m")])])
    report, rows = exported(tmp_path, recorder.store, [trace], format="openai-rft")
    assert rows == []
    assert report.check.calls == {"unwritable": 1}
    assert "1 unwritable" in str(report.check.refusal)


def test_prompts_need_no_reward(tmp_path: Path) -> None:
    """A grader gives it; why there is no logged one is told."""
    recorder = Recorder(tmp_path)
    trace = recorder.run(1, [Call("scout", ASKED, [text("assistant", "3 m")])])
    report, (row,) = exported(tmp_path, recorder.store, [trace], format="openai-rft")
    assert (row["reference_reward"], row["logged_rewards"]) == (None, [None])
    assert report.check.unlabelled == {"no_reward": 1}
