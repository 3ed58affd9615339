"""What counts: revisions, late rewards, labels, filters, weights, and what no prompt may hold."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content import Capture, ask
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.datasets import Job, export
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Reward
from orchtrace_otel.testing import capture
from tests.recorded import Call, Recorder, text, write
from tests.unit.datasets.lines import ASKED, SAID, exported, rows, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("lines_is_installed")


def test_of_several_revisions_the_highest_counts_wherever_it_lies(recorder: Recorder) -> None:
    """In any order of files and lines; the others are counted."""
    revisions = [
        run(recorder, said=f"revision {number}", revision=number, reward=1.0)
        for number in (1, 3, 0, 2)
    ]
    write(recorder.folder / "in", revisions[:2])
    write(recorder.folder / "in", revisions[2:], "traces.000001.jsonl")
    report = exported(recorder, recorder.folder / "in")
    assert [row["said"] for row in rows(recorder)] == ["revision 3"]
    assert (report.counts.runs, report.counts.superseded) == (1, 3)


def test_a_reward_that_came_late_labels_its_run(recorder: Recorder) -> None:
    """As `jsonl:` writes it beside the traces; one of an unknown run is counted."""
    folder = write(recorder.folder / "in", [run(recorder)])
    late = Reward(id="x", component="task", value=0.75).to_dict()
    given_to = [run(recorder).trace_id, "somebody else"]
    text = "".join(json.dumps({"run_id": one, **late}) + "\n" for one in given_to)
    (folder / "rewards.jsonl").write_text(text)
    report = exported(recorder, folder)
    assert [row["label"] for row in rows(recorder, "lineage.jsonl")] == [0.75]
    assert (report.counts.late, report.counts.orphans) == (2, 1)


def test_runs_without_and_with_contradictory_rewards_say_why_a_label_is_missing(recorder) -> None:
    """They are written; where a format needs a label they are dropped for that."""
    twice = [Reward(id=str(value), component="task", value=value) for value in (0.0, 1.0)]
    runs = [
        run(recorder, 1),
        run(recorder, 2, rewards=twice),
        run(recorder, 3, reward=0.5),
    ]
    report = exported(recorder, write(recorder.folder / "in", runs))
    missing = [row["label_missing"] for row in rows(recorder)]
    assert missing == ["no_reward", "contradictory_rewards", None]
    assert report.check.unlabelled == {"no_reward": 1, "contradictory_rewards": 1}


@pytest.mark.parametrize(
    ("components", "labels", "missing"),
    [
        (["quality", None], [0.5, None], [None, "no_reward"]),
        (["task", "seconds"], [0.5, None], [None, "no_reward"]),
        (["quality", "seconds"], [None, None], ["ambiguous_reward"] * 2),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_all_labels_of_a_data_set_are_of_one_reward(
    recorder: Recorder,
    components: list[str | None],
    labels: list[float | None],
    missing: list[str | None],
    *,
    is_late: bool,
) -> None:
    """A run that lacks it gets none, though it has another one; whenever that was given."""
    given = {number: name for number, name in enumerate(components, 1) if name is not None}
    runs = [
        run(recorder, number, rewards=[reward(given[number])] if is_now else [])
        for number in (1, 2)
        for is_now in [number in given and not (is_late and number == 2)]
    ]
    folder = write(recorder.folder / "in", runs)
    if is_late and 2 in given:
        came = {"run_id": runs[1].trace_id, **reward(given[2]).to_dict()}
        (folder / "rewards.jsonl").write_text(json.dumps(came) + "\n")
    exported(recorder, folder)
    assert [row["label"] for row in rows(recorder, "lineage.jsonl")] == labels
    assert [row["label_missing"] for row in rows(recorder)] == missing


def reward(component: str) -> Reward:
    """A reward of the team."""
    return Reward(id=component, component=component, value=0.5)


def test_structural_rewards_label_nothing_unless_they_are_asked_for(recorder: Recorder) -> None:
    """They are there for every run; the one outcome among them is the label."""
    measured = [
        Reward(id=name, component=name, value=0.0, estimator="structural", unit="orchestrator")
        for name in ("r_parallel", "serial_collapse")
    ]
    runs = [run(recorder, 1, reward=0.5, component="quality", rewards=measured)]
    folder = write(recorder.folder / "in", runs)
    exported(recorder, folder)
    assert [row["label"] for row in rows(recorder, "lineage.jsonl")] == [0.5]
    report = export(
        Job(format="lines", content=str(recorder.store), reward="r_parallel", least=0.5),
        [str(folder)],
        None,
    )
    assert report.check.calls == {"filtered": 1}


def test_a_share_of_the_outcome_can_be_the_label(recorder: Recorder) -> None:
    """By the method that gave it, on the call that led to the event."""
    trace = run(recorder, 1, reward=1.0)
    events = [
        Event(e.id, e.t, e.type, e.agent, {**e.keys, "credit": {"shapley": 0.75}})
        if e.get("turns")
        else e
        for e in trace.events
    ]
    changed = replace(trace, events=tuple(events))
    exported(recorder, write(recorder.folder / "in", [changed]), reward="credit:shapley")
    assert [row["label"] for row in rows(recorder, "lineage.jsonl")] == [0.75]


@pytest.mark.parametrize(
    ("choices", "kept"),
    [
        ({"reward": "quality"}, [1, 2, 3]),
        ({"reward": "quality", "least": 0.5}, [2, 3]),
        ({"reward": "quality", "most": 0.5}, [1, 2]),
        ({"since": 1_795_988_434_000_000_000 + 2 * 10**9}, [2, 3]),
        ({"until": 1_795_988_434_000_000_000 + 2 * 10**9}, [1]),
        ({"stop_reasons": frozenset({"max_steps"})}, [3]),
        ({"topologies": frozenset({"debate"})}, [2]),
        ({"agents": frozenset({"scout"})}, [1, 2, 3]),
        ({"roles": frozenset({"critic"})}, []),
    ],
)
def test_each_filter_lets_through_what_it_says(recorder: Recorder, choices, kept) -> None:
    """What it leaves out is counted as filtered."""
    runs = [
        run(recorder, 1, reward=0.0, component="quality"),
        run(recorder, 2, reward=0.5, component="quality", topology="debate"),
        run(recorder, 3, reward=1.0, component="quality", stop_reason="max_steps"),
    ]
    report = exported(recorder, write(recorder.folder / "in", runs), **choices)
    if kept:
        ids = [row["run_id"] for row in rows(recorder)]
        assert ids == [runs[number - 1].trace_id for number in kept]
    left_out = report.check.calls + report.check.runs
    assert left_out == ({"filtered": 3 - len(kept)} if len(kept) < 3 else {})


@pytest.mark.parametrize(
    ("prompt", "completion", "reason"),
    [
        (["redacted"], [], None),
        (["cut"], [], "redacted"),
        ([], ["cut"], "redacted"),
        ([], ["redacted"], "redacted"),
        ([], [], None),
    ],
)
def test_what_a_model_did_not_write_as_it_stands_is_not_taught(
    recorder: Recorder, prompt, completion, reason
) -> None:
    """A placeholder or half an answer; a prompt without a secret is still what it answered to."""
    said = {**text("assistant", "yes"), **({"flags": completion} if completion else {})}
    read = {**text("user", "q?"), **({"flags": prompt} if prompt else {})}
    trace = recorder.run(1, [Call("scout", [read], [said])], task="q")
    report = exported(recorder, write(recorder.folder / "in", [trace]))
    assert report.check.calls == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"agents": "scout"}, "agents must be a set of names, got 'scout'"),
        ({"judges": None}, "judges must be a set of names, got None"),
        ({"alike": "much"}, "alike must be a number, got 'much'"),
        ({"margin": math.nan}, "margin must be a number, got nan"),
        ({"margin": -0.1}, "margin must be at least 0, got -0.1"),
        ({"least": 1.0, "most": 0.5}, "least must not be above most, got 1.0 and 0.5"),
        ({"since": 2, "until": 1}, "since must not be above until, got 2 and 1"),
        ({"reward": 1}, "reward must be the name of one, got 1"),
    ],
)
def test_a_job_that_holds_nothing_is_refused(choices: dict[str, Any], says: str) -> None:
    """In the words of its fields, when it is made: a text would be searched for parts of names."""
    with pytest.raises(ConfigError, match=f"^{re.escape(says)}$"):
        Job(format="lines", **choices)


def test_places_are_texts_or_paths_and_always_several(recorder: Recorder) -> None:
    """One by itself would be taken for a list of its letters."""
    folder = write(recorder.folder / "in", [run(recorder)])
    job = Job(format="lines", content=str(recorder.store))
    for place in (str(folder), folder):
        assert export(job, [place], None).counts.runs == 1
        with pytest.raises(ConfigError, match="needs a list of files and folders"):
            export(job, place, None)
    assert export(job, [folder], str(recorder.folder / "text")).check.records == 1
    assert (recorder.folder / "text" / "train.jsonl").exists()


@pytest.mark.parametrize(
    ("verdict", "read", "is_told"),
    [
        ("wrong, 0 of 10", text("user", "wrong, 0 of 10"), True),
        ("wrong,\n0 of 10\n", text("user", "The judge said: wrong, 0 of 10. Again!"), True),
        ("no", text("user", "no"), True),
        ("no", text("user", "not yet known"), False),
        ("wrong, 0 of 10", text("user", "wrong"), False),
    ],
)
def test_a_verdict_leaks_in_nobody_elses_name(
    recorder: Recorder, verdict: str, read: dict[str, Any], *, is_told: bool
) -> None:
    """AutoGen hands on what an agent wrote as a user's words, and hosts put it into others."""
    calls = [
        Call("judge", [*ASKED, *SAID], [text("assistant", verdict)], role="judge", t=1.0),
        Call("scout", [*ASKED, *SAID, read], SAID, role="executor", t=2.0),
    ]
    folder = write(recorder.folder / "in", [recorder.run(1, calls)])
    found = exported(recorder, folder, roles=frozenset({"executor"})).check.calls
    assert found["verdict_in_prompt"] == int(is_told)


def test_a_verdict_leaks_into_no_prompt(recorder: Recorder) -> None:
    """A call that read what a judge of its run wrote is left out; the others stay."""
    verdict = text("assistant", "CANARY: the answer is right, 10 of 10")
    calls = [
        Call("scout", ASKED, SAID, role="executor"),
        Call("judge", [*ASKED, *SAID], [verdict], role="judge", t=2.0),
        Call("scout", [*ASKED, *SAID, verdict], SAID, role="executor", t=3.0),
    ]
    folder = write(recorder.folder / "in", [recorder.run(1, calls)])
    report = exported(recorder, folder, roles=frozenset({"executor"}))
    assert report.check.calls == {"filtered": 1, "verdict_in_prompt": 1}
    out = recorder.folder / "out"
    assert not [file for file in out.iterdir() if "CANARY" in file.read_text()]


def test_equal_records_are_written_once_where_that_is_asked_for(recorder: Recorder) -> None:
    """Else each call has its own."""
    folder = write(recorder.folder / "in", [run(recorder, number) for number in (1, 2, 3)])
    report = exported(recorder, folder, deduplicate=True)
    assert (report.check.records, report.check.calls) == (1, {"duplicate": 2})
    again = Recorder(recorder.folder / "again")
    runs = [run(again, number) for number in (1, 2, 3)]
    assert exported(again, write(again.folder / "in", runs)).check.records == 3


def test_a_runs_sampling_weight_is_on_its_records(recorder: Recorder) -> None:
    """So that a trainer can undo the sampling."""
    exported(recorder, write(recorder.folder / "in", [run(recorder, weight=20.0)]))
    assert [row["weight"] for row in rows(recorder)] == [20.0]


def test_a_call_whose_prompt_had_no_room_is_left_out(tmp_path: Path) -> None:
    """A limit on a run's content may leave room for a short answer: it is taught to nothing."""
    store = str(tmp_path / "content")
    with capture() as captured:
        on = set_up(Capture(mode="EVENT_ONLY", store=store, run_bytes=1_000), None)
        assert on is not None
        talk()
        content.use(None)
        on.shutdown(10)
    folder = write(tmp_path / "in", captured.traces)
    check = export(Job(format="lines", content=store), [str(folder)], None).check
    assert (check.records, check.calls) == (1, {"content_missing": 1})


@orchtrace.agent
def talk() -> None:
    """Ask in few words, and in many."""
    for size in (1, 1_000):
        with ask("m", [{"role": "user", "content": "how high? " * size}]) as asked:
            asked.answered({"choices": [{"message": {"role": "assistant", "content": "3 m"}}]})


def test_a_call_that_read_more_than_words_is_left_out(recorder: Recorder) -> None:
    """Its answer is one to an image that the prompt would not show."""
    image = {"type": "uri", "modality": "image", "uri": "https://host/tide.png"}
    seen = [{"role": "user", "parts": [{"type": "text", "content": "How high?"}, image]}]
    calls = [
        Call("scout", seen, SAID),
        Call("scout", ASKED, SAID),
    ]
    folder = write(recorder.folder / "in", [recorder.run(1, calls)])
    assert exported(recorder, folder).check.calls == {"unwritable": 1}


def test_an_answer_without_a_word_is_no_completion(recorder: Recorder) -> None:
    """Servers give an empty text, or a block of one, where the limit was nought."""
    calls = [Call("scout", ASKED, [text("assistant", "")]), Call("scout", ASKED, SAID)]
    report = exported(recorder, write(recorder.folder / "in", [recorder.run(1, calls)]))
    assert report.check.calls == {"no_completion": 1}
