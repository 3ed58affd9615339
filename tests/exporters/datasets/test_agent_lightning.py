"""`agent-lightning`: rollouts and their events for 1.0, runs and their spans for 0.3.

Shapes are those of agentlightning 1.0.2, `agentlightning/schemas.py`, and of 0.3.0,
`agentlightning/types/tracer.py` and `semconv.py`; tests/trainers asks both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.errors import ConfigError
from tests.exporting import exported
from tests.nested import nested
from tests.recorded import Call, Recorder, many, siblings, text, tokens

Json = dict[str, Any]
SPANS = {"release": "0.3"}


def matched(spans: list[Json]) -> dict[str, float]:
    """Give rewards to calls in the way of 0.3's `FIRST_OCCURRENCE`."""
    begun: list[Json] = []
    found: dict[str, float] = {}
    for span in sorted(spans, key=lambda one: one["start_time"]):
        if span["name"] == "openai.chat.completion":
            begun.append(span)
        value = span["attributes"].get("agentlightning.reward.0.value")
        free = (
            call["span_id"]
            for call in reversed(begun)
            if call["end_time"] <= span["start_time"] and call["span_id"] not in found
        )
        if value is not None:
            found[next(free)] = value
    return found


def linked(spans: list[Json]) -> dict[str, float]:
    """Give rewards to the calls that they name."""
    return {
        told["agentlightning.link.0.value_match"]: told["agentlightning.reward.0.value"]
        for told in (span["attributes"] for span in spans)
        if "agentlightning.reward.0.value" in told
    }


def test_a_rollout_is_an_agents_calls_and_what_they_earned(tmp_path: Path) -> None:
    """`data_id` says what it is compared with; the reward is the last event."""
    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, rows = exported(tmp_path, store, [first, second], format="agent-lightning")
    lead = [row for row in rows if row["rollout"]["metadata"]["agent"] == "lead"]
    assert {row["rollout"]["input"]["data_id"] for row in lead} == {"tide:planner"}
    row = max(lead, key=lambda one: one["events"][-1]["data"]["value"])
    assert [event["event_type"] for event in row["events"]] == [
        *("model_request", "model_request", "reward")
    ]
    told = row["events"][1]["data"]
    assert told["response"]["prompt_token_ids"] == [1, 2, 3, 4, 5, 6, 7]
    assert told["response"]["choices"][0]["token_ids"] == [12, 13]
    assert told["request"]["temperature"] == 1.0
    assert (told["http_status"], told["status"]) == (200, "ok")
    assert row["events"][-1]["data"] == {
        "value": 1.0,
        "source": "orchtrace",
        "reason": "task of the team",
    }


def test_calls_with_one_prompt_are_rollouts_of_their_own(tmp_path: Path) -> None:
    """1.0 keeps the last of those in one rollout: siblings, and a call that was tried again."""
    recorder = Recorder(tmp_path)
    again = [
        Call(
            "a",
            [text("user", "?")],
            [text("assistant", words)],
            instance="a#1",
            t=1.0 + place,
            tokens=tokens(words, offset=place),
        )
        for place, words in enumerate(("no", "yes"))
    ]
    runs = [siblings(recorder), recorder.run(2, again, task="again", reward=0.5)]
    report, rows = exported(tmp_path, recorder.store, runs, format="agent-lightning")
    assert report.check.calls == {"one_sample": 2}
    assert [row["events"][-1]["data"]["value"] for row in rows] == [0.0, 0.5, 1.0]
    runs.append(recorder.run(3, again, task="again", reward=1.0))
    _, rows = exported(tmp_path, recorder.store, runs, format="agent-lightning")
    assert [len(row["events"]) for row in rows] == [2] * 7
    assert len({row["rollout"]["rollout_id"] for row in rows}) == 7
    values = [row["events"][-1]["data"]["value"] for row in rows]
    assert sorted(values) == [0.0, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0]


def test_spans_have_what_a_store_drops_them_without(tmp_path: Path) -> None:
    """Rollout and attempt on the resource, a sequence, agents by name, tokens on calls."""
    store, trace = nested(tmp_path)
    choices = {"format": "agent-lightning", "settings": SPANS}
    _, (row,) = exported(tmp_path, store, [trace], **choices)
    spans = row["spans"]
    assert [span["sequence_id"] for span in spans] == list(range(len(spans)))
    for span in spans:
        told = span["resource"]["attributes"]
        assert told["agentlightning.rollout_id"] == span["rollout_id"] == trace.trace_id
        assert told["agentlightning.attempt_id"] == span["attempt_id"] == "0"
        assert span["trace_id"] == trace.trace_id.partition("-")[0]
    names = {span["span_id"]: span["attributes"].get("agent.name") for span in spans}
    calls = [span for span in spans if span["name"] == "openai.chat.completion"]
    assert [names[call["parent_id"]] for call in calls] == ["lead", "scout", "scout", "lead"]
    last = calls[-1]["attributes"]
    assert last["prompt_token_ids"] == [1, 2, 3, 4, 5, 6, 7]
    assert last["response_token_ids"] == [12, 13]
    assert last["logprobs.content"] == '[{"logprob":-0.12},{"logprob":-0.13}]'
    assert last["gen_ai.completion.0.content"] == "high"
    assert [span["span_id"] for span in spans if span["parent_id"] is None] == [spans[0]["span_id"]]


def test_each_reward_is_matched_to_the_call_that_it_names(tmp_path: Path) -> None:
    """By 0.3's order of time too: interleaved siblings, and calls that end together."""
    recorder = Recorder(tmp_path)
    together = [
        Call(
            "a",
            [text("user", "?")],
            [text("assistant", f"x{place}")],
            t=2.0,
            tokens=tokens("x"),
            reward=float(place),
        )
        for place in range(4)
    ]
    runs = [siblings(recorder, 901), recorder.run(902, together, task="t", reward=0.5)]
    choices = {"format": "agent-lightning", "settings": SPANS}
    _, rows = exported(tmp_path, recorder.store, [*runs, *many(recorder, 50)], **choices)
    assert len(rows) == 52
    for row in rows:
        assert matched(row["spans"]) == linked(row["spans"])
    by_task = {row["rollout"]["input"]["task_id"]: linked(row["spans"]) for row in rows}
    assert list(by_task["t"].values()) == [3.0, 2.0, 1.0, 0.0]
    assert list(by_task["tide"].values()) == [0.0, 0.5, 1.0]


def test_rollouts_need_tokens_and_their_log_probabilities(tmp_path: Path) -> None:
    """The trainer drops calls without them, in silence."""
    recorder = Recorder(tmp_path)
    calls = [
        Call("a", [text("user", "?")], [text("assistant", "x")]),
        Call(
            "b",
            [text("user", "?")],
            [text("assistant", "x")],
            tokens=tokens("x", logprobs=False),
        ),
    ]
    run = recorder.run(1, calls, task="t", reward=1.0)
    report, _ = exported(tmp_path, recorder.store, [run], format="agent-lightning")
    assert report.check.calls == {"no_token_ids": 1, "no_logprobs": 1}
    settings = {"release": "2", "tokens": "optional"}
    with pytest.raises(ConfigError, match=r"release must be one of 1\.0, 0\.3"):
        exported(tmp_path, recorder.store, [run], format="agent-lightning", settings=settings)


def test_a_thousand_runs_go_through(thousand, tmp_path: Path) -> None:
    """Each call is one request of one rollout."""
    store, made = thousand
    report, rows = exported(tmp_path, store, made, format="agent-lightning")
    assert (report.check.calls, len(rows)) == ({}, 3_000)
    requests = [event for row in rows for event in row["events"] if event["event_type"] != "reward"]
    assert len({event["data"]["turn_id"] for event in requests}) == 3_000
