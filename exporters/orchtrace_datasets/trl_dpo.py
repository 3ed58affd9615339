"""`trl-dpo`: preference pairs of calls, for TRL's `DPOTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from orchtrace_datasets.pairs import SETTINGS, Pair, pairs, records_of
from orchtrace_datasets.trl_messages import messages
from orchtrace_otel.datasets import Group, Need, Outcome, Writer


class TrlDpo(Writer):
    """One row a pair: one prompt, the better and the worse answer, and the margin."""

    name: ClassVar[str] = "trl-dpo"
    about: ClassVar[str] = "TRL's DPOTrainer (1.16): prompt, chosen, rejected, tools"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT, Need.LABEL, Need.TASK})
    settings: ClassVar[Any] = SETTINGS
    loses: ClassVar[tuple[str, ...]] = (
        "rewards themselves: a pair keeps which is better, and the margin",
        "token ids and log probabilities: the trainer makes its own, of its reference model",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each pair."""
        yield from records_of(pairs(group), _row)


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "prompt": messages(pair.chosen.prompt),
        "chosen": messages(pair.chosen.completion),
        "rejected": messages(pair.rejected.completion),
        "tools": orjson.dumps(pair.chosen.tools).decode(),
    }
