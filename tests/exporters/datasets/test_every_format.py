"""What holds for every format that is installed, ours and others'."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from orchtrace_otel.datasets import Job, export, known_writers, open_writer
from orchtrace_otel.datasets.reasons import REASONS
from orchtrace_otel.errors import MissingDependencyError
from orchtrace_otel.model import Trace
from tests.recorded import Call, Recorder, many, siblings, text, write

FORMATS = sorted(known_writers())
GENERATOR = Path(__file__).resolve().parents[3] / "docs" / "generate_datasets.py"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorder, list[Trace]]:
    """Runs that every format can be made of: answers to one prompt that differ in reward."""
    recorder = Recorder(tmp_path_factory.mktemp("recorded"))
    return recorder, [*many(recorder, 60, tasks=10), siblings(recorder, 98), siblings(recorder, 99)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_what_it_is_for(name: str) -> None:
    """Its name is that of its entry point, and who loads it is told with it."""
    writer = open_writer(name)
    assert writer.name == name
    assert writer.about
    assert all(isinstance(one, str) for one in (*writer.loses, *writer.settings.values()))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_makes_the_same_of_the_same_runs(name: str, recorded, tmp_path: Path) -> None:
    """In whatever order they come; each record has its lineage, each reason its meaning."""
    recorder, traces = recorded
    job = Job(format=name, content=str(recorder.store), validation=0.3)
    reports = []
    for number, given in enumerate((traces, traces[::-1])):
        source = write(tmp_path / f"in-{number}", given)
        try:
            reports.append(export(job, [str(source)], tmp_path / f"out-{number}"))
        except MissingDependencyError:
            reports.append(export(job, [str(source)], None))  # its library is of another extra
    first, second = reports
    assert first.check.refusal is None
    assert first.to_dict() == second.to_dict()
    assert set(first.check.calls) | set(first.check.runs) | set(first.check.unlabelled) <= set(
        REASONS
    )
    if first.fingerprint:
        text_of_lineage = (tmp_path / "out-0" / "lineage.jsonl").read_text()
        lineage = [json.loads(line) for line in text_of_lineage.splitlines()]
        assert len(lineage) == first.check.records == sum(first.splits.values())
        ids = {trace.trace_id for trace in traces}
        assert all(row["runs"] and set(row["runs"]) <= ids for row in lineage)
    dry = export(job, [str(write(tmp_path / "in-dry", traces))], None)
    assert dry.check.to_dict() == first.check.to_dict()


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_surrogate_pair_costs_no_data_set(name: str, recorded, tmp_path: Path) -> None:
    """Others may write one into any text: a task's id, a name, an event's id; it is replaced."""
    recorder, traces = recorded
    plain, odd = write(tmp_path / "plain", traces), write(tmp_path / "odd", [])
    text = (plain / "traces.jsonl").read_text()
    for known in ('"task-', '"cri', '.close"'):
        assert known in text
        text = text.replace(known, known[:-1] + "\\ud83d" + known[-1])
    (odd / "traces.jsonl").write_text(text)
    job = Job(format=name, content=str(recorder.store))
    wanted, report = (export(job, [str(source)], None) for source in (plain, odd))
    assert report.bad_count == 0
    assert report.check.refusal is None
    assert report.check.records == wanted.check.records


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_of_nothing_refuses_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    """Runs without calls and without decisions are no data set of any format."""
    recorder = Recorder(tmp_path)
    source = write(tmp_path / "in", [recorder.run(1, [])])
    report = export(Job(format=name), [str(source)], tmp_path / "out")
    stop_alone = report.check.refusal is None and report.check.records <= 1
    assert report.check.refusal is not None or stop_alone
    if report.check.refusal is not None:
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_shows_a_verdict_in_what_it_teaches(name: str, tmp_path: Path) -> None:
    """What a judge of a run wrote is in no record of the others' calls."""
    recorder = Recorder(tmp_path)
    ask, canary = [text("user", "Is it so?")], text("assistant", "CANARY: right")
    runs = [
        recorder.run(
            number,
            [
                Call("scout", ask, [text("assistant", f"it is {number}")], role="executor"),
                Call("judge", ask, [canary], role="judge", t=2.0),
                Call("scout", [*ask, canary], [text("assistant", "ok")], role="executor", t=3.0),
            ],
            task="so",
            reward=float(number),
        )
        for number in (0, 1)
    ]
    job = Job(
        format=name,
        content=str(recorder.store),
        roles=frozenset({"executor"}),
        validation=0.0,
    )
    out = tmp_path / "out"
    try:
        export(job, [str(write(tmp_path / "in", runs))], out)
    except MissingDependencyError:
        return
    written = [file for file in out.rglob("*") if file.is_file()] if out.exists() else []
    assert not [file for file in written if b"CANARY" in file.read_bytes()]


def test_the_page_of_the_data_sets_is_what_the_code_says() -> None:
    """docs/datasets.md was made anew after the last change; `make docs` does it."""
    spec = importlib.util.spec_from_file_location("generate_datasets", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = generator.PAGE.read_text(encoding="utf-8")
    assert page == generator.render(page), "run: make docs"
