"""`skyrl`: ids and masks of whole conversations, in Parquet.

Columns are those of skyrl 0.4.0, `skyrl/train/dataset/pretokenized.py`;
tests/trainers/test_skyrl.py asks SkyRL itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.datasets import Report
from orchtrace_otel.errors import ConfigError
from tests.exporting import exported
from tests.nested import nested
from tests.recorded import Call, Recorder, siblings, text, tokens

Json = dict[str, Any]


def rows(folder: Path, *given: Any, **choices: Any) -> tuple[Report, list[Json]]:
    """Export and read Parquet back."""
    report, _ = exported(folder, *given, format="skyrl", **choices)
    files = sorted(folder.glob("out-*/train.parquet"), key=lambda file: file.stat().st_mtime_ns)
    return report, pq.read_table(files[-1]).to_pylist() if files else []


def test_a_conversation_is_a_row_with_ones_on_what_was_sampled(tmp_path: Path) -> None:
    """Tokens that others wrote in between are zeros; each token is learned from once."""
    store, trace = nested(tmp_path)
    _, made = rows(tmp_path, store, [trace])
    lead = made[0]
    assert lead["input_ids"] == [1, 2, 3, 4, 5, 6, 7, 12, 13]
    assert lead["loss_mask"] == [0, 0, 0, 1, 1, 0, 0, 1, 1]
    assert (lead["agent"], lead["label"], len(lead["turn_ids"])) == ("lead", 1.0, 2)
    assert [row["input_ids"] for row in made[1:]] == [[8, 9, 10, 11]] * 2


def test_calls_can_be_rows_of_their_own(tmp_path: Path) -> None:
    """However they continue one another."""
    store, trace = nested(tmp_path)
    _, made = rows(tmp_path, store, [trace], settings={"rows": "calls"})
    assert [row["loss_mask"] for row in made if row["agent"] == "lead"] == [
        [0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 1, 1],
    ]
    with pytest.raises(ConfigError, match="rows must be one of conversations, calls"):
        rows(tmp_path, store, [trace], settings={"rows": "x"})


def test_a_prefix_that_breaks_begins_a_new_row(tmp_path: Path) -> None:
    """Equal messages are not enough: the tokens must continue."""
    recorder = Recorder(tmp_path)
    ask, said = [text("user", "?")], [text("assistant", "one two")]
    other = Tokens(provenance="exact", prompt_ids=(1, 2, 3, 99), ids=(5,))
    calls = [
        Call("a", ask, said, instance="a#1", tokens=tokens("one two")),
        Call("a", [*ask, *said], said, instance="a#1", t=2.0, tokens=other),
    ]
    _, made = rows(tmp_path, recorder.store, [recorder.run(1, calls, task="t", reward=1.0)])
    assert [row["input_ids"] for row in made] == [[1, 2, 3, 10, 11], [1, 2, 3, 99, 5]]


def test_forced_tokens_are_not_learned(tmp_path: Path) -> None:
    """A row of forced tokens alone is none."""
    recorder = Recorder(tmp_path)
    calls = [
        Call(
            name,
            [text("user", "?")],
            [text("assistant", "x y")],
            tokens=Tokens(provenance="exact", prompt_ids=(1,), ids=(2, 3), mask=mask),
        )
        for name, mask in (("a", (0, 1)), ("b", (0, 0)))
    ]
    run = recorder.run(1, calls, task="t", reward=1.0)
    report, (row,) = rows(tmp_path, recorder.store, [run])
    assert row["loss_mask"] == [0, 0, 1]
    assert report.check.calls == {"no_completion": 1}


def test_parallel_siblings_are_a_row_each_with_their_own_label(tmp_path: Path) -> None:
    """Though they read the same tokens."""
    recorder = Recorder(tmp_path)
    _, found = rows(tmp_path, recorder.store, [siblings(recorder)])
    assert [(row["label"], row["input_ids"][3:]) for row in found] == [
        (0.0, [10, 11]),
        (0.5, [11, 12]),
        (1.0, [12, 13]),
    ]


def test_a_thousand_runs_are_a_row_a_call(thousand, tmp_path: Path) -> None:
    """None of them continues another."""
    store, made = thousand
    report, found = rows(tmp_path, store, made)
    assert (len(found), report.check.calls) == (3_000, {})
    assert all(len(row["input_ids"]) == len(row["loss_mask"]) for row in found)
