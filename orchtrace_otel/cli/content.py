"""`orchtrace content`: what a store of content holds, and taking things out of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from orchtrace_otel.cli._console import out_json, tell
from orchtrace_otel.cli._sources import Store
from orchtrace_otel.cli._summary import counted
from orchtrace_otel.content import collect, delete_run, open_store

if TYPE_CHECKING:
    from orchtrace_otel.content.collection import Collected

_STORE: Final = click.argument("store", type=Store(), envvar="ORCHTRACE_STORE", metavar="STORE")
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Write JSON.")


@click.group("content", short_help="List, collect and delete captured content.")
def command() -> None:
    """Look after a store of captured content.

    STORE is a folder or any URL that fsspec knows. `ls` and `gc` take ORCHTRACE_STORE unless
    it is given.
    """


@command.command("ls", short_help="List the runs whose content is kept.")
@_STORE
@_JSON
def ls(store: str, *, as_json: bool) -> int:
    """List the runs whose content is kept, and how many documents each uses."""
    with open_store(store) as opened:
        runs, documents = opened.runs, len(opened)
    if as_json:
        out_json({"documents": documents, "runs": runs})
        return 0
    for run_id, used in sorted(runs.items()):
        tell(f"{run_id}  {used:,}")
    use = "uses" if len(runs) == 1 else "use"
    tell(f"{counted(len(runs), 'run')} {use} {counted(documents, 'document')}")
    return 0


@command.command("gc", short_help="Drop what no run uses.")
@_STORE
@_JSON
def gc(store: str, *, as_json: bool) -> int:
    """Drop what no run uses, and put small segments together."""
    _told(collect(store), as_json=as_json)
    return 0


@command.command("delete", short_help="Delete the content of runs.")
@_STORE
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_JSON
def delete(store: str, runs: tuple[str, ...], *, as_json: bool) -> int:
    """Delete the content of each RUN, by its trace_id; what other runs use stays.

    Exit code 1 says that a process is writing a segment that may hold more of it: its
    readers do not find it any more, and `orchtrace content gc` takes it out afterwards.
    """
    found = [delete_run(store, run_id) for run_id in runs]
    for one in found:
        _told(one, as_json=as_json)
    return int(found[-1].busy > 0)


def _told(found: Collected, *, as_json: bool) -> None:
    if as_json:
        out_json(asdict(found))
        return
    tell(f"dropped {counted(found.documents, 'document')}, freed {counted(found.bytes, 'byte')}")
    if found.busy:
        tell(
            f"{found.busy:,} of {found.segments:,} segments are being written and were left; "
            "run `orchtrace content gc` when that is over"
        )
