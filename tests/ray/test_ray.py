"""Ray itself: the same tables as the local engine, on a small cluster of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ray = pytest.importorskip("ray", reason="Ray is heavy: `make test-ray` installs it")

import httpx  # noqa: E402

import orchtrace_otel as orchtrace  # noqa: E402
from orchtrace_otel import attributes as a  # noqa: E402
from orchtrace_otel import spans  # noqa: E402
from orchtrace_otel.datasets import Job, engine, known_writers  # noqa: E402
from orchtrace_otel.datasets.exporting import local  # noqa: E402
from orchtrace_otel.datasets.ray_engine import run  # noqa: E402
from orchtrace_otel.datasets.ray_lake import records_of  # noqa: E402
from orchtrace_otel.errors import ConfigError  # noqa: E402
from orchtrace_otel.model import Reward  # noqa: E402
from orchtrace_otel.testing import capture  # noqa: E402
from tests.collecting import PROTOBUF, collecting, encoded, eventually  # noqa: E402
from tests.lakes import again, in_order, lake, local_table, made_by, runs  # noqa: E402
from tests.recorded import Call, Recorder, siblings, text, write  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own are not ours to mend


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two processors and a small store; stopped afterwards."""
    context = ray.init(
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A content store."""
    return Recorder(tmp_path)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table for every few runs, so that there are several."""
    gather = engine.batches
    monkeypatch.setattr(engine, "batches", lambda groups: gather(groups, 8))


@pytest.mark.parametrize("name", sorted(known_writers()))
def test_ray_and_local_make_the_same_table(
    cluster: str, small_batches: None, recorder: Recorder, tmp_path: Path, name: str
) -> None:
    """Of each format, compared as sorted Arrow tables; what is written is the same too."""
    traces = write(tmp_path / "in", runs(recorder))
    job = Job(format=name, content=str(recorder.store), validation=0.4)
    wanted, table = made_by(local, job, [str(traces)], tmp_path / "local")
    report, came = made_by(run, job, [str(traces)], tmp_path / "ray")
    assert table.num_rows > 0
    assert came.equals(table)
    assert report.to_dict() == wanted.to_dict()


@pytest.mark.parametrize("name", ["trl-sft", "trl-dpo", "trl-rollout"])
def test_stored_tables_make_the_same_records(
    cluster: str, recorder: Recorder, tmp_path: Path, name: str
) -> None:
    """Read by workers part by part; late rewards and revisions as the local engine has them."""
    traces = runs(recorder)
    late = [(traces[0].trace_id, Reward(id="judged", component="task", value=0.75))]
    first = lake(tmp_path / "first", traces, late)
    second = lake(tmp_path / "second", [again(recorder, traces[3])])
    job = Job(format=name, content=str(recorder.store), reward="task", validation=0.4)
    made = records_of([first, second], job)
    assert table_of(made).equals(local_table(job, [first, second]))


def table_of(made: Any) -> Any:
    """A Ray dataset as a sorted table."""
    return in_order(pa.concat_tables(made.iter_batches(batch_size=None, batch_format="pyarrow")))


def test_the_command_joins_a_cluster(cluster: str, recorder: Recorder, tmp_path: Path) -> None:
    """`--engine ray` in a process of its own, with `RAY_ADDRESS`; the same fingerprint."""
    write(tmp_path / "in", runs(recorder))
    prints = []
    for name in ("local", "ray"):
        arguments = ("export", "in", "--to", "trl-kto", "--content", "content", "--out", name)
        done = subprocess.run(
            [sys.executable, "-m", "orchtrace_otel.cli", *arguments, "--engine", name],
            cwd=tmp_path,
            env={**os.environ, "RAY_ADDRESS": cluster},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        prints.append(json.loads((tmp_path / name / "dataset.json").read_text())["fingerprint"])
    assert prints[0] == prints[1]


def ask(recorder: Recorder, question: str) -> str:
    """A run with one call, as an adapter records it."""

    @orchtrace.team("harbour", task_id=question, reward=lambda _: 1.0)
    def answer() -> str:
        activation = spans.current()
        assert activation is not None
        turn = spans.open_turn(activation, "fake-1")
        call = Call("harbour", [text("user", question)], [text("assistant", "high")])
        ref = recorder.turn(activation.run.id, turn.span_id, call)
        turn.close(attributes={a.CONTENT_REF: ref})
        return question

    return answer()


def test_tables_that_a_collector_wrote_become_a_data_set(
    cluster: str, recorder: Recorder, tmp_path: Path
) -> None:
    """Spans to `orchtrace collect --tables parquet`, its store to Ray, records to Parquet."""
    questions = [f"how high is the tide in {place}?" for place in ("Bergen", "Calais", "Dover")]
    with capture(deterministic=False) as captured:
        for question in questions:
            ask(recorder, question)
    store = tmp_path / "store"
    options = ("--grace", "0.1", "--fsync", "never", "--tables", "parquet")
    with collecting(store, *options) as collector:
        httpx.post(f"{collector.url}/v1/traces", content=encoded(captured.spans), headers=PROTOBUF)
        eventually(lambda: collector.metric("runs_total", "new") == len(questions), 120)
    job = Job(format="trl-sft", content=str(recorder.store), validation=0.0)
    made = records_of([str(store)], job)
    table = table_of(made)
    assert table.equals(local_table(job, [str(store)]))
    said = [json.loads(row)["prompt"][-1]["content"] for row in table.column("record").to_pylist()]
    assert sorted(said) == questions
    kept = made.filter(lambda row: row["split"] == "train" and row["record"])
    kept.write_parquet(str(tmp_path / "sft"))
    assert pq.read_table(tmp_path / "sft").num_rows == len(questions)


def test_a_worker_sees_content_that_came_since(
    cluster: str, recorder: Recorder, tmp_path: Path
) -> None:
    """Though it worked for an export of the same store before."""
    for number in (1, 2):
        traces = write(tmp_path / str(number), [siblings(recorder, number)])
        job = Job(format="trl-sft", content=str(recorder.store))
        report, _ = made_by(run, job, [str(traces)])
        assert (report.check.records, report.check.refusal) == (3, None)


def test_a_wrong_job_ends_with_its_own_error(cluster: str) -> None:
    """Before a worker is asked."""
    with pytest.raises(ConfigError, match="must have one of the formats"):
        list(run([engine.planned([])], Job(format="odd")))
