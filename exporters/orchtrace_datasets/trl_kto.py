"""`trl-kto`: answers that are good or bad, each on its own, for TRL's `KTOTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from orchtrace_datasets.malt import judged
from orchtrace_datasets.trl_messages import messages
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Writer, of_call

_LABELS = ("reward", "malt")


class TrlKto(Writer):
    """One row a call: prompt, completion, and whether it was good.

    It serves for rewards of steps too, since TRL 1.16 has no trainer of process rewards.
    With `-s labels=malt` an answer is good if the runs that went on from it mostly did
    well.
    """

    name: ClassVar[str] = "trl-kto"
    about: ClassVar[str] = "TRL's KTOTrainer (1.16): prompt, completion, label"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT})
    settings: ClassVar[Any] = {
        "threshold": "label from which a call, or a run, is good; default 0.5",
        "labels": "`reward`, the call's own label, or `malt`, what its answer led to; default "
        "`reward`",
    }
    loses: ClassVar[tuple[str, ...]] = ("rewards beyond good and bad",)

    def needs_of(self, group: Group) -> frozenset[Need]:
        """A label of its own, unless what it led to labels it."""
        labels = group.job.choice("labels", _LABELS)
        return self.needs | {Need.LABEL if labels == "reward" else Need.TASK}

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each call, or each different answer."""
        threshold = group.job.number("threshold", 0.5)
        if group.job.choice("labels", _LABELS) == "reward":
            for call in group.calls:
                yield of_call(call, _row(call, label=(call.label.value or 0.0) >= threshold))
            return
        for one in judged(group, threshold):
            if isinstance(one, Dropped):
                yield one
            else:
                ours = {"value": one.value, "runs": one.runs}
                yield of_call(one.call, {**_row(one.call, label=one.is_good), **ours})


def _row(call: Call, *, label: bool) -> dict[str, Any]:
    return {
        "prompt": messages(call.prompt),
        "completion": messages(call.completion),
        "label": label,
        "tools": orjson.dumps(call.tools).decode(),
        "agent": call.agent,
        "role": call.role,
    }
