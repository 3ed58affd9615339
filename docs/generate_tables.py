# ruff: noqa: INP001, E501 - a script beside the page that it writes, with text of that page
"""Write docs/tables.md from the code: `python docs/generate_tables.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchtrace_otel.tables.columns import KINDS, MEANINGS, TABLES, VERSION, Column

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).with_name("tables.md")

HEAD = """\
# The tables, column by column

<!-- Made from the code by docs/generate_tables.py; run it after a change and edit nothing here. -->

Finished runs as six tables of Parquet, layout VERSION. `parquet:runs/` writes them (`configure(exporters=[...])` or
`ORCHTRACE_EXPORTERS`), `orchtrace convert IN --to parquet:runs/` makes them of what there is, and back.

```
runs/<table>/date=YYYY-MM-DD/<part>.parquet         the day on which a run began, in UTC
```

A part holds whole runs under one name in each table, and counts once it stands in `runs`, which is written last. Files
appear complete, by a rename on a local folder and as one object behind a URL: a crash leaves whole parts, and at most
rows of a part that nobody asks for, since joins begin at `runs`. `rewards/.../late-*.parquet` holds rewards that came
after their runs. Nothing is written at once: what a killed process loses is what came since the last part, which is put
down every `max_events` events (50,000) or late rewards, every `max_seconds` seconds (60), at a flush and at the end:
`parquet:runs/?max_seconds=10`. `orchtrace convert IN --to parquet:runs/ --compact` joins small parts.

A run may be there in several **revisions**; the highest `revision` of a `run_id` counts. Where that one has
`superseded_by`, in `extra` of its stop, the run is another one since and counts no more. Readers of ours do so. A part has each run once; only `runs` says
the revision, so where runs change, SQL counts older rows of the other tables too until `--compact` has left them out.

```python
duckdb.sql("select agent, avg(cost) from 'runs/turns/*/*.parquet' group by agent")
polars.scan_parquet("runs/turns/**/*.parquet", hive_partitioning=True)
pandas.read_parquet("runs/turns")
spark.read.parquet("runs/turns")
```

All four are run by tests, Spark in `make test-spark`: its lines 3.5 and 4.3, on Java 17 and 25 and in local mode, read every
column and value of all six tables and join them. `from` and `to` are words of SQL: quote them. Spark takes the date for a
text where a run lies under `date=unknown`, and wants `spark.read.option("mergeSchema", "true")` where parts of several
releases lie together. Of runs that changed, these count, in Spark's SQL:

```sql
select runs.* from runs
join (select run_id, max(revision) as revision from runs group by run_id) using (run_id, revision)
left anti join (
  select run_id, revision from events
  where verb = 'stop' and get_json_object(extra, '$.superseded_by') is not null
) using (run_id, revision)
```

**Unknown is null**, never 0. What a trace says and no column holds is in `extra`, and so is a value that its column
cannot give back as it was spelled: reading gives the trace back, equal (`tables.trace_of`). Columns marked *derived*
are computed from the others. Content is not in the tables but behind `content_ref`; the columns of content are null,
unless it was asked for: `parquet:runs/?content=STORE` copies it in from the content store, for readers without one.

| kind | Arrow type |
|---|---|
"""


def page() -> Iterator[str]:
    """The page, line by line."""
    yield HEAD.rstrip("\n").replace("VERSION", str(VERSION))
    yield from (f"| {kind} | `{arrow}` |" for kind, arrow in KINDS.items())
    for table, columns in TABLES.items():
        yield from ("", f"## {table}", "", MEANINGS[table], "")
        yield from ("| column | kind | unit | meaning |", "|---|---|---|---|")
        yield from map(line, columns)


def line(column: Column) -> str:
    """One column."""
    derived = " *derived*" if column.is_derived else ""
    return f"| `{column.name}` | {column.kind}{derived} | {column.unit} | {column.meaning} |"


def render() -> str:
    """The page."""
    return "\n".join(page()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
