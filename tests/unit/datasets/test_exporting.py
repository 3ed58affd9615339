"""What all formats share: choosing, splitting, counting, and what happens to bad input."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.datasets import Group, Job, Need, Record, Report, Writer, engine, export, writer
from orchtrace_otel.datasets import files as dataset_files
from orchtrace_otel.datasets.exporting import local
from orchtrace_otel.datasets.tasks import clusters, likeness, signature, split_of
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.schema import dump
from tests.recorded import Call, Recorder, many, text, write

ASKED = [text("user", "How high is the tide?")]
SAID = [text("assistant", "three metres")]


class Lines(Writer):
    """A format of the test: the completion, and what it is labelled."""

    name = "lines"
    about = "a test"
    needs = frozenset({Need.CONTENT})

    def records(self, group: Group) -> Any:
        """A record a call."""
        for call in group.calls:
            data = {"said": call.completion[0]["content"]}
            yield Record(
                data,
                (call.run.id,),
                (call.id,),
                call.run.weight,
                call.label.missing,
                call.label.value,
            )


class Entry:
    """An entry point of the test."""

    def load(self) -> type[Writer]:
        """The format."""
        return Lines


@pytest.fixture(autouse=True)
def lines_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lines` is found by its name."""
    monkeypatch.setattr(writer, "known_writers", lambda: {"lines": Entry()})


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A store of content."""
    return Recorder(tmp_path)


def run(recorder: Recorder, number: int = 1, said: str = "three metres", **more: Any) -> Trace:
    """A run of one call."""
    call = Call("scout", ASKED, [text("assistant", said)], role="executor")
    return recorder.run(number, [call], **{"task": "tide", **more})


def exported(recorder: Recorder, folder: Path | str, **choices: Any) -> Report:
    """Export into `out`, everything into one split."""
    job = Job(**{"format": "lines", "content": str(recorder.store), "validation": 0.0, **choices})
    return export(job, [str(folder)], recorder.folder / "out")


def rows(recorder: Recorder, name: str = "train.jsonl") -> list[dict[str, Any]]:
    """Rows that were written."""
    lines = (recorder.folder / "out" / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


# --- what counts ----------------------------------------------------------------------


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
    several = [Reward(id=name, component=name, value=1.0) for name in ("a", "b")]
    runs = [
        run(recorder, 1),
        run(recorder, 2, rewards=twice),
        run(recorder, 3, rewards=several),
        run(recorder, 4, reward=0.5),
    ]
    report = exported(recorder, write(recorder.folder / "in", runs))
    missing = [row["label_missing"] for row in rows(recorder)]
    assert missing == ["no_reward", "contradictory_rewards", "ambiguous_reward", None]
    assert report.check.unlabelled == {
        "no_reward": 1,
        "contradictory_rewards": 1,
        "ambiguous_reward": 1,
    }


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


# --- splits ---------------------------------------------------------------------------


def test_nearly_the_same_task_is_never_in_two_splits(recorder: Recorder) -> None:
    """Whatever the seed; a task that has nothing in common may be."""
    told = "How high is the water in the old harbour at noon today, and when is it low again"
    runs = [
        recorder.run(1, [Call("scout", [text("user", told)], SAID)], task="b"),
        recorder.run(2, [Call("scout", [text("user", told + "?")], SAID)], task="a"),
        recorder.run(3, [Call("scout", [text("user", "Bake me bread")], SAID)], task="c"),
    ]
    folder = write(recorder.folder / "in", runs)
    seen = set()
    for seed in range(12):
        job = Job(format="lines", content=str(recorder.store), validation=0.5, seed=seed)
        out = recorder.folder / f"out-{seed}"
        report = export(job, [str(folder)], out)
        assert (report.tasks, report.clusters) == (3, 2)
        lineage = [json.loads(line) for line in (out / "lineage.jsonl").read_text().splitlines()]
        splits = {row["runs"][0][:32].lstrip("0"): row["split"] for row in lineage}
        assert splits["1"] == splits["2"]
        seen.add(splits["1"] == splits["3"])
    assert seen == {True, False}


@given(
    st.text(alphabet="abcdefgh ", min_size=20, max_size=80),
    st.text(alphabet="stuvwxyz ", min_size=20, max_size=80),
)
def test_likeness_knows_equal_texts_and_those_that_share_nothing(one: str, other: str) -> None:
    """1 of a text with itself, 0 of texts without a common word."""
    first, second = signature(one), signature(other)
    if first is not None and second is not None:
        assert likeness(first, first) == 1.0
        assert likeness(first, second) == 0.0


def test_likeness_estimates_the_share_of_common_runs_of_words() -> None:
    """Within a tenth, for texts that have half and nine tenths in common."""
    words = [f"word{number}" for number in range(300)]
    for share in (0.5, 0.9):
        kept = int(200 * share * 2 / (1 + share))
        one, other = words[:200], [*words[:kept], *words[-(200 - kept) :]]
        runs = [{tuple(text[i : i + 3]) for i in range(198)} for text in (one, other)]
        truth = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
        found = likeness(signature(" ".join(one)), signature(" ".join(other)))
        assert abs(found - truth) < 0.2


def test_likeness_is_transitive_in_clusters() -> None:
    """Tasks that are alike by way of others are together, named by the first."""
    words = [f"word{number}" for number in range(60)]
    texts = [(name, " ".join(words[start : start + 40])) for start, name in enumerate("cab")]
    found = dict(clusters(sorted(texts), 0.8))
    assert found == {"a": "a", "b": "a", "c": "a"}


@given(st.text(), st.integers(0, 9))
def test_a_split_follows_from_seed_and_cluster_alone(cluster: str, seed: int) -> None:
    """And a larger share only adds to the held-out tasks."""
    small, large = (split_of(cluster, seed, share) for share in (0.2, 0.6))
    assert small == split_of(cluster, seed, 0.2)
    assert not (small == "validation" and large == "train")


# --- the same again -------------------------------------------------------------------


def test_the_same_runs_make_the_same_data_set_in_whatever_order_they_come(tmp_path) -> None:
    """The fingerprint says so, and it changes with the seed and the runs."""
    recorder = Recorder(tmp_path)
    traces = many(recorder, 40, tasks=8)

    def fingerprint(name: str, given: list[Trace], seed: int = 0) -> str:
        job = Job(format="lines", content=str(recorder.store), validation=0.5, seed=seed)
        source = write(tmp_path / f"in-{name}", given)
        report = export(job, [str(source)], tmp_path / f"out-{name}")
        written = json.loads((tmp_path / f"out-{name}" / "dataset.json").read_text())
        assert written["fingerprint"] == report.fingerprint
        return report.fingerprint

    first = fingerprint("first", traces)
    assert fingerprint("again", traces[::-1]) == first
    assert fingerprint("seed", traces, seed=1) != first
    assert fingerprint("fewer", traces[:-1]) != first


def test_an_engine_is_one_function_from_table_to_table(tmp_path: Path) -> None:
    """Given the groups one by one, or all at once, it makes the same rows."""
    recorder = Recorder(tmp_path)
    source = write(tmp_path / "in", many(recorder, 30, tasks=6))
    job = Job(format="lines", content=str(recorder.store))
    seen: list[Any] = []

    def spying(tables: Any, job: Job) -> Any:
        for table in tables:
            assert table.schema.equals(engine.input_schema())
            seen.append(table)
            made = engine.records(table, job)
            assert made.schema.equals(engine.output_schema())
            yield made

    export(job, [str(source)], None, run_engine=spying)
    (whole,) = seen
    tasks = sorted(set(whole.column("task_id").to_pylist()))
    column = whole.column("task_id").to_pylist()
    parts = [
        whole.take([place for place, one in enumerate(column) if one == task]) for task in tasks
    ]
    together = [row for table in local([whole], job) for row in table.to_pylist()]
    apart = [row for table in local(parts, job) for row in table.to_pylist()]
    assert together == apart
    assert len(together) == 90


def test_memory_holds_a_few_groups_however_many_runs_there_are(tmp_path: Path) -> None:
    """Batches end with a whole task and are not much larger than asked for."""
    recorder = Recorder(tmp_path)
    source = write(tmp_path / "in", many(recorder, 600, tasks=100, calls=1))
    sizes: list[int] = []

    def counting(tables: Any, job: Job) -> Any:
        for table in tables:
            sizes.append(table.num_rows)
            yield engine.records(table, job)

    job = Job(format="lines", content=str(recorder.store))
    export(job, [str(source)], None, run_engine=counting)
    assert sum(sizes) == 600
    assert max(sizes) <= 512 / 2 + 6


# --- what is bad ----------------------------------------------------------------------


def test_half_written_and_foreign_input_is_told_and_the_rest_written(recorder: Recorder) -> None:
    """By file and line; a run that no schema accepts costs itself alone."""
    good = run(recorder, 1)
    folder = recorder.folder / "in"
    write(folder, [good])
    (folder / "other.jsonl").write_bytes(
        b'{"trace_id": 1}\n' + dump(run(recorder, 2)) + b"\n" + dump(run(recorder, 3))[:-40]
    )
    (folder / "rewards.jsonl").write_text('{"run_id": "r"}\n')
    report = exported(recorder, folder)
    assert len(rows(recorder)) == 2
    assert report.bad_count == 3
    where = sorted(Path(bad.where).name for bad in report.bad)
    assert where == ["other.jsonl:1", "other.jsonl:3", "rewards.jsonl:1"]
    assert all("must" in bad.why for bad in report.bad)


def test_content_that_is_gone_costs_its_call_alone(recorder: Recorder) -> None:
    """A ref that the store does not know is no reason to stop."""
    kept, gone = run(recorder, 1), run(recorder, 2)
    document = gone.to_dict()
    document["events"][-1]["turn_records"][0]["content_ref"] = "0" * 32
    folder = write(recorder.folder / "in", [kept, Trace.from_dict(document)])
    report = exported(recorder, folder)
    assert len(rows(recorder)) == 1
    assert report.check.calls == {"content_missing": 1}


def test_without_a_store_a_format_of_content_refuses(recorder: Recorder) -> None:
    """The message says what to name."""
    folder = write(recorder.folder / "in", [run(recorder)])
    report = export(Job(format="lines"), [str(folder)], recorder.folder / "out")
    assert "1 no_content" in str(report.check.refusal)
    assert "--content" in str(report.check.refusal)
    assert not (recorder.folder / "out").exists()


def test_a_record_that_json_cannot_hold_is_dropped_alone(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a surrogate pair is no text; the other records are written."""

    class Odd(Lines):
        def records(self, group: Group) -> Any:
            for place, record in enumerate(super().records(group)):
                data = {"said": "\udc00"} if place == 0 else record.data
                yield replace(record, data=data)

    monkeypatch.setattr(Entry, "load", lambda _: Odd)
    folder = write(recorder.folder / "in", [run(recorder, number) for number in (1, 2)])
    report = exported(recorder, folder)
    assert (report.check.records, report.check.calls) == (1, {"unwritable": 1})


def test_no_runs_at_all_are_refused(tmp_path: Path) -> None:
    """With an empty folder nothing is written."""
    (tmp_path / "in").mkdir()
    report = export(Job(format="lines"), [str(tmp_path / "in")], tmp_path / "out")
    assert report.check.refusal == "lines needs runs, got none"


def test_a_full_disk_leaves_nothing_behind_and_names_the_file(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is full at a record or at the end."""
    folder = write(recorder.folder / "in", [run(recorder)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place, name in ((dataset_files.JsonLines, "write"), (dataset_files.os, "fsync")):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, full)
            with pytest.raises(OSError, match="No space left") as raised:
                exported(recorder, folder)
        assert raised.value.filename
        assert sorted(path.name for path in recorder.folder.iterdir()) == ["content", "in"]
    assert exported(recorder, folder).check.records == 1


def test_a_folder_that_holds_something_is_left_as_it_is(recorder: Recorder) -> None:
    """It must be new or empty."""
    folder = write(recorder.folder / "in", [run(recorder)])
    (recorder.folder / "out").mkdir()
    exported(recorder, folder)
    with pytest.raises(ConfigError, match="new or an empty folder"):
        exported(recorder, folder)
    assert len(rows(recorder)) == 1


def test_a_format_that_is_not_installed_is_told_with_those_that_are() -> None:
    """By their names."""
    with pytest.raises(ConfigError, match="one of the formats lines, got 'odd'"):
        export(Job(format="odd"), [], None)


def test_runs_of_others_without_turns_or_stop_do_no_harm(recorder: Recorder) -> None:
    """Foreign traces have no calls, and are counted as such where calls are needed."""
    foreign = Trace(
        "r", "q", (Event("e", 0, "spawn", "a"),), costs={"tokens": 0, "wall_clock_s": 0}
    )
    report = exported(recorder, write(recorder.folder / "in", [foreign]))
    assert report.check.runs == {"no_calls": 1}


def test_the_card_says_where_it_comes_from_and_under_which_licence(recorder: Recorder) -> None:
    """Counts, models, dates, seed, what was left out; not where the content lies."""
    folder = write(recorder.folder / "in", [run(recorder, 1, reward=1.0), run(recorder, 2)])
    job = Job(format="lines", content=str(recorder.store), validation=0.0, seed=5)
    out = recorder.folder / "out"
    export(job, [str(folder)], out, license_id="CC-BY-4.0")
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlicense: CC-BY-4.0\n")
    for said in ("records, train | 2", "fake-1 (2 calls)", "2026-11-29", "| seed | 5 |"):
        assert said in card
    assert "| 1 | no_reward:" in card
    assert str(recorder.store) not in card + (out / "dataset.json").read_text()
