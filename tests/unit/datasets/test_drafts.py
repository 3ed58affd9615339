"""Drafts of data sets: what a killed process leaves goes with the next export, and nothing else."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchtrace_otel.datasets import drafts
from orchtrace_otel.datasets.drafts import Draft, clear_abandoned

if TYPE_CHECKING:
    from pathlib import Path

KILLED = """
import os, signal, sys
from pathlib import Path
from orchtrace_otel.datasets.drafts import Draft
for name in sys.argv[1:]:
    (Draft(Path(name)).path / "train.jsonl").write_text("{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(*outs: Path) -> None:
    """Leave the drafts of a process that was killed."""
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, outs)], check=False)
    assert done.returncode == -signal.SIGKILL


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_process_s_draft_goes_and_others_stay(tmp_path: Path) -> None:
    """Those of the same target, that nobody writes any more; none of another or of the living."""
    out, other = tmp_path / "set", tmp_path / "set.2"
    killed(out, out, other)
    living = Draft(out)
    foreign = tmp_path / ".set.notes"
    foreign.mkdir()
    assert len(names(tmp_path)) == 5
    clear_abandoned(out)
    left = {*names(tmp_path)} - {foreign.name, living.path.name}
    assert [name.startswith(".set.2.") for name in left] == [True]
    living.put()
    assert (names(out), living.path.exists()) == ([], False)
    clear_abandoned(other)
    assert names(tmp_path) == [foreign.name, "set"]


def test_a_draft_stays_where_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another machine, without a lock, new and not held yet, or behind a link."""
    out = tmp_path / "set"
    killed(out)
    draft = next(tmp_path.iterdir())
    new, bare = tmp_path / ".set.1-00000000", tmp_path / ".set.2-00000000"
    new.mkdir()
    (new / ".lock").touch()
    bare.mkdir()
    (tmp_path / "elsewhere").mkdir()
    kept = tmp_path / "elsewhere" / draft.name
    shutil.copytree(draft, kept)
    link = tmp_path / ".set.3-00000000"
    link.symlink_to(kept)
    wanted = [path.name for path in (new, bare, link)]
    with monkeypatch.context() as patched:
        patched.setattr(drafts.platform, "node", lambda: "another machine")
        clear_abandoned(out)
    assert draft.exists()
    with monkeypatch.context() as patched:
        patched.setattr(drafts, "import_module", refuse)
        clear_abandoned(out)
    assert draft.exists()
    clear_abandoned(out)
    assert names(tmp_path) == sorted([*wanted, "elsewhere"])
    assert names(kept) == [".lock", "train.jsonl"]
    clear_abandoned(tmp_path / "missing" / "set")


def refuse(name: str) -> None:
    raise ModuleNotFoundError(name)


def test_a_draft_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    """Neither the folder nor its lock."""
    draft = Draft(tmp_path / "set")
    (draft.path / "train.jsonl").write_text("{}")
    draft.discard()
    assert names(tmp_path) == []


def test_what_has_no_place_any_more_is_still_known_to_be_a_draft(tmp_path: Path) -> None:
    """Another export was faster; that of a process that dies of it goes with the next."""
    out = tmp_path / "set"
    slow, fast = Draft(out), Draft(out)
    (fast.path / "train.jsonl").write_text("{}")
    fast.put()
    with pytest.raises(OSError, match="not empty"):
        slow.put()
    clear_abandoned(out)
    assert slow.path.exists()
    shutil.copytree(slow.path, tmp_path / ".set.1-00000000")
    clear_abandoned(out)
    assert sorted(names(tmp_path)) == sorted([slow.path.name, "set"])
    slow.discard()
    assert (names(tmp_path), names(out)) == (["set"], ["train.jsonl"])
