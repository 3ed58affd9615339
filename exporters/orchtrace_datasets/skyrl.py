"""`skyrl`: the very tokens that were read and written, with a mask, for SkyRL's SFT trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from orchtrace_datasets.conversations import Conversation, conversations
from orchtrace_datasets.stretches import Stretch, stretches
from orchtrace_otel.datasets import Dropped, Group, Need, Outcome, Record, Writer
from orchtrace_otel.datasets.files import ParquetRows
from orchtrace_otel.tables.arrow import pyarrow

if TYPE_CHECKING:
    from pathlib import Path

    from orchtrace_otel.datasets.files import Sink

_ROWS: Final = ("conversations", "calls")


class Skyrl(Writer):
    """One row a conversation: all its ids, and 1 for each that the policy sampled.

    SkyRL pads and truncates; rows are as long as they were. Calls of one instance that
    earned the same and continue one another token by token are one row, so that each
    token is learned from once; others are rows of their own.
    """

    name: ClassVar[str] = "skyrl"
    about: ClassVar[str] = "SkyRL's SFT trainer (0.4), pre-tokenised: input_ids, loss_mask"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.TOKENS})
    settings: ClassVar[Any] = {
        "rows": "`conversations`, or `calls`: a row for each, however they continue; default "
        "`conversations`",
    }
    loses: ClassVar[tuple[str, ...]] = (
        "log probabilities and policy versions",
        "rewards, beyond choosing rows by --min-reward and --max-reward; `label` has them",
        "a folder of several files: its loader takes one kind of file, so name `train.parquet`",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each conversation."""
        joined = group.job.choice("rows", _ROWS) == "conversations"
        for run in group.runs:
            for stretch in stretches(run):
                for one in conversations(stretch.calls, group.job, joined=joined):
                    yield _row(stretch, one)

    def sink(self, folder: Path, split: str) -> Sink:
        """Return a file of Parquet: SkyRL maps it into memory."""
        pa: Any = pyarrow()
        ids = pa.list_(pa.int32())
        schema = pa.schema(
            {
                "input_ids": ids,
                "loss_mask": pa.list_(pa.int8()),
                "label": pa.float64(),
                "agent": pa.string(),
                "role": pa.string(),
                "run_id": pa.string(),
                "turn_id": pa.string(),
                "turn_ids": pa.list_(pa.string()),
                "weight": pa.float64(),
                "label_missing": pa.string(),
            }
        )
        return ParquetRows(folder / f"{split}.parquet", schema)


def _row(stretch: Stretch, one: Conversation) -> Outcome:
    first = one.calls[0]
    if not any(one.mask):
        return Dropped("no_completion", first.run.id, first.id)
    label = stretch.label
    turns = [call.id for call in one.calls]
    data = {
        "input_ids": [*one.prompt_ids, *one.ids],
        "loss_mask": [*(0 for _ in one.prompt_ids), *one.mask],
        "label": label.value,
        "agent": stretch.agent,
        "role": first.role,
        "turn_ids": turns,
    }
    run = stretch.run
    task = str(run.row["task_id"])
    return Record(data, (run.id,), turns, run.weight, label.missing, label.value, task)
