"""The page of a data set: what is in it, where it comes from, and under which licence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from orchtrace_otel.datasets.reasons import REASONS

Json: TypeAlias = Mapping[str, Any]

_NANO: Final = 10**9
_MARKUP: Final = frozenset("|<>[]`*!\\&")


def card(facts: Json) -> str:
    """Return the page, in Markdown with the header that the Hugging Face Hub reads.

    Args:
        facts: What `dataset.json` holds.
    """
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Json) -> Iterator[str]:
    check, job, read = facts["check"], facts["job"], facts["read"]
    yield "---"
    yield f"license: {facts['license']}"
    yield f"tags: [orchtrace, {check['format']}]"
    yield "---"
    yield f"# {check['format']} from {read['runs']} runs"
    yield ""
    yield "Made from recorded runs of agent teams. `lineage.jsonl` says, row by row, which runs and"
    yield "calls a record comes from, its sampling weight, its label, and why a label is missing."
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in _facts(facts):
        yield f"| {name} | {value} |"
    yield from _counted("Left out: calls", check["dropped_calls"])
    yield from _counted("Left out: whole runs", check["dropped_runs"])
    yield from _counted("Records without a label", check["unlabelled"])
    if check["loses"]:
        yield from ("", "## What the format has no place for", "")
        yield from (f"- {one}" for one in check["loses"])
    yield from ("", "## How it was asked for", "")
    yield from (
        f"- {name}: {value}" for name, value in job.items() if value not in (None, [], {}, ())
    )


def _facts(facts: Json) -> Iterator[tuple[str, object]]:
    for split, count in sorted(facts["splits"].items()):
        yield f"records, {split}", f"{count:,}"
    yield "tasks", f"{facts['tasks']:,}, of which {facts['clusters']:,} differ"
    yield "revisions that were superseded", f"{facts['read']['superseded']:,}"
    yield "late rewards of no run in it", f"{facts['read']['orphans']:,}"
    yield "inputs that could not be read", f"{facts['read']['bad']:,}"
    models = facts["models"].items()
    told = ", ".join(f"{_plain(name)} ({count:,} calls)" for name, count in models)
    yield "models", told or "none"
    if facts["began_unix_nano"] is not None:
        first, last = (_date(one) for one in facts["began_unix_nano"])
        yield "runs began", f"{first} to {last}"
    yield "licence", facts["license"]
    yield "seed", facts["job"]["seed"]
    yield "fingerprint", f"`{facts['fingerprint']}`"
    yield "made by", facts["made_by"]


def _plain(name: str) -> str:
    """Return a name that a server gave as a cell may hold it: no markup, and on one line."""
    return " ".join("".join(" " if one in _MARKUP else one for one in name).split())


def _date(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / _NANO, UTC).date().isoformat()


def _counted(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if not counts:
        return
    yield from ("", f"## {title}", "", "| how many | why |", "|---|---|")
    for reason, count in sorted(counts.items(), key=lambda one: -one[1]):
        yield f"| {count:,} | {reason}: {REASONS.get(reason, reason)} |"
