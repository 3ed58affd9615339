"""Spark itself reads the tables: the same types, rows, maps and joins as the page promises."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pyspark = pytest.importorskip("pyspark", reason="Spark is heavy: `make test-spark` installs it")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from orchtrace_files import compact, open_parquet  # noqa: E402
from orchtrace_otel.model import Reward, Trace  # noqa: E402
from orchtrace_otel.tables.columns import TABLES  # noqa: E402
from tests.recorded import Recorder, many, siblings  # noqa: E402
from tests.spark.java import java_home  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # Spark's own are not ours to mend

KINDS = {
    "text": "string",
    "whole": "bigint",
    "number": "double",
    "yes/no": "boolean",
    "texts": "array<string>",
    "ids": "array<int>",
    "floats": "array<float>",
    "numbers": "map<string,double>",
    "words": "map<string,string>",
    "json": "string",
}
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with one thread, on loopback; stopped afterwards."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", str(java_home(folder / "java")))
        patched.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patched.delenv("SPARK_HOME", raising=False)
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A content store."""
    return Recorder(tmp_path / "recorded")


@pytest.fixture
def traces(recorder: Recorder) -> list[Trace]:
    """A dozen runs of three calls each, and one of three siblings."""
    return [*many(recorder, 12, tasks=4), siblings(recorder, 500)]


def filled(folder: Path, traces: list[Trace], query: str = "", late: Any = ()) -> Path:
    """A lake with these runs and late rewards."""
    exporter = open_parquet(f"{folder}{query}")
    for trace in traces:
        exporter.export(trace)
    for run_id, reward in late:
        exporter.amend(run_id, reward)
    exporter.shutdown()
    return folder


def tables(spark: SparkSession, lake: Path) -> dict[str, DataFrame]:
    """Every table as the page reads it, also by its name in SQL."""
    found = {name: spark.read.parquet(str(lake / name)) for name in TABLES}
    for name, frame in found.items():
        frame.createOrReplaceTempView(name)
    return found


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as text, with the date as text too, sorted."""
    plain = ({**row, "date": str(row["date"])} for row in rows)
    return sorted(json.dumps(row, sort_keys=True) for row in plain)


def test_every_table_is_in_spark_what_it_is_in_arrow(
    spark: SparkSession, recorder: Recorder, traces: list[Trace], tmp_path: Path
) -> None:
    """All columns of the page with their types, and all values, over many parts with content."""
    late = [(traces[0].trace_id, Reward(id="judged", component="task", value=0.75))]
    query = f"?max_events=30&content={recorder.store}"
    lake = filled(tmp_path / "lake", traces, query, late)
    for name, frame in tables(spark, lake).items():
        kinds = [(column.name, KINDS[column.kind]) for column in TABLES[name]]
        assert frame.dtypes == [*kinds, ("date", "date")]
        wanted = pq.read_table(lake / name).to_pylist(maps_as_pydicts="strict")
        came = [row.asDict(recursive=True) for row in frame.collect()]
        assert len(came) >= len(traces)
        assert in_order(came) == in_order(wanted)
    said = "messages is not null and size(response_ids) = size(logprobs)"
    assert spark.table("turns").where(said).count() == 3 * len(traces)


def test_turns_join_their_runs_and_look_into_maps(
    spark: SparkSession, traces: list[Trace], tmp_path: Path
) -> None:
    """Calls, tokens and the team's rewards by agent are those of the traces."""
    tables(spark, filled(tmp_path / "lake", traces))
    rows = spark.sql("""
        select turns.agent, count(*) calls, sum(cost) tokens, sum(runs.rewards['task']) earned
        from turns join runs using (run_id, date) group by turns.agent
    """).collect()
    calls, tokens, earned = Counter(), Counter(), Counter()
    for trace in traces:
        for turn in trace.turns:
            calls[turn.agent] += 1
            tokens[turn.agent] += turn.input_tokens + turn.output_tokens
            earned[turn.agent] += trace.rewards["task"]
    assert {row.agent: (row.calls, row.tokens, row.earned) for row in rows} == {
        agent: (calls[agent], tokens[agent], pytest.approx(earned[agent])) for agent in calls
    }


def test_edges_join_the_events_at_both_ends(
    spark: SparkSession, traces: list[Trace], tmp_path: Path
) -> None:
    """Who caused what at whom; `from` and `to` are columns when they are quoted."""
    tables(spark, filled(tmp_path / "lake", traces))
    rows = spark.sql("""
        select edges.type, cause.agent, effect.`from`, effect.`to`, count(*) edges
        from runs join edges using (run_id, date)
        join events cause on cause.run_id = edges.run_id and cause.id = edges.src
        join events effect on effect.run_id = edges.run_id and effect.id = edges.dst
        group by all
    """).collect()
    wanted = Counter()
    for trace in traces:
        events = {event.id: event for event in trace.events}
        for edge in trace.edges:
            keys = events[edge.dst].keys
            wanted[edge.type, events[edge.src].agent, keys.get("from"), keys.get("to")] += 1
    assert len(wanted) > 1
    assert {tuple(row)[:4]: row.edges for row in rows} == wanted


def revised(trace: Trace, revision: int, **said: str) -> Trace:
    """The same run with a change."""
    stop = trace.events[-1]
    keys = {**stop.keys, "revision": revision, **said}
    return replace(trace, events=(*trace.events[:-1], replace(stop, keys=keys)))


def latest(spark: SparkSession, lake: Path) -> tuple[set[Any], Counter[Any]]:
    """The runs that count, with their revisions, and the calls that are joined to them."""
    tables(spark, lake)
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    spark.sql(query).createOrReplaceTempView("latest")
    runs = spark.sql("select run_id, revision from latest").collect()
    calls = spark.sql("select run_id, turns.id from latest join turns using (run_id)").collect()
    return set(map(tuple, runs)), Counter(map(tuple, calls))


def test_of_runs_that_changed_sql_finds_those_that_count(
    spark: SparkSession, traces: list[Trace], tmp_path: Path
) -> None:
    """With the page's query: the highest revision, and no run that is another one since."""
    first, second, third, *_ = traces
    gone = revised(second, 1, superseded_by=third.trace_id)
    given = [revised(first, 2), second, revised(first, 1), third, gone]
    lake = filled(tmp_path / "lake", given, "?max_events=1")
    wanted = {(first.trace_id, 2), (third.trace_id, 0)}

    calls = Counter((one.trace_id, turn.id) for one in (first, third) for turn in one.turns)
    of_older_rows = Counter((first.trace_id, turn.id) for turn in first.turns)

    assert latest(spark, lake) == (wanted, calls + of_older_rows)
    compact(str(lake))
    assert latest(spark, lake) == (wanted, calls)


def test_a_day_that_nobody_knows_makes_dates_texts(
    spark: SparkSession, traces: list[Trace], tmp_path: Path
) -> None:
    """Such runs lie under `date=unknown`, and are read with the others."""
    first = traces[0]
    begun = first.events[0]
    keys = {key: value for key, value in begun.keys.items() if key != "start_unix_nano"}
    bare = replace(first, trace_id="f" * 32, events=(replace(begun, keys=keys), *first.events[1:]))
    frame = tables(spark, filled(tmp_path / "lake", [*traces, bare]))["runs"]
    assert dict(frame.dtypes)["date"] == "string"
    assert frame.where("date = 'unknown'").count() == 1
    assert frame.where("date = '2026-11-29'").count() == len(traces)


def test_what_a_writer_left_unfinished_is_passed_over(
    spark: SparkSession, traces: list[Trace], tmp_path: Path
) -> None:
    """A draft of a writer that was killed begins with a dot."""
    lake = filled(tmp_path / "lake", traces)
    (day,) = (lake / "turns").iterdir()
    (day / ".0000.parquet.4711").write_bytes(b"PAR1")
    assert spark.read.parquet(str(lake / "turns")).count() == 3 * len(traces)


@pytest.mark.parametrize("first", ["older", "newer"])
def test_columns_that_came_later_are_null_in_older_files(
    spark: SparkSession, traces: list[Trace], tmp_path: Path, first: str
) -> None:
    """With `mergeSchema`: without it Spark may take an older file's word for all of them."""
    lake = filled(tmp_path / "lake", traces[:1])
    filled(lake, traces[1:2])
    files = sorted((lake / "turns").rglob("*.parquet"))
    older = files[0 if first == "older" else 1]
    pq.write_table(pq.read_table(older, partitioning=None).drop_columns(["cost"]), older)
    frame = spark.read.option("mergeSchema", "true").parquet(str(lake / "turns"))
    assert {(row.run_id, row.cost) for row in frame.collect()} == {
        (traces[0].trace_id, None if first == "older" else 12.0),
        (traces[1].trace_id, 12.0 if first == "older" else None),
    }
