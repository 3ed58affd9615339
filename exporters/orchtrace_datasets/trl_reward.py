"""`trl-reward`: pairs for TRL's `RewardTrainer`, of calls or of whole orchestrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from orchtrace_datasets.orchestrations import TABLES, contests, specification
from orchtrace_datasets.pairs import SETTINGS, Pair, pairs, records_of
from orchtrace_datasets.trl_messages import messages
from orchtrace_otel.datasets import Dropped, Group, Need, Outcome, Record, Writer
from orchtrace_otel.errors import ContentError

_OF = ("calls", "orchestrations")


class TrlReward(Writer):
    """One row a pair, with an implicit prompt and a margin.

    With `-s of=orchestrations` a row is two whole runs of one task that did differently
    well, each as the text of its orchestration, with the spans of its fields.
    """

    name: ClassVar[str] = "trl-reward"
    about: ClassVar[str] = "TRL's RewardTrainer (1.16): chosen, rejected, margin"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.TASK})
    tables: ClassVar[tuple[str, ...]] = TABLES
    settings: ClassVar[Any] = {
        "of": "`calls`, or `orchestrations`: whole runs that won and lost; default `calls`",
        **SETTINGS,
    }
    loses: ClassVar[tuple[str, ...]] = (
        "rewards themselves: a pair keeps which is better, and the margin",
        "the tools on offer",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """Calls need content and a label of their own, orchestrations the run's."""
        of = group.job.choice("of", _OF)
        more = {Need.CONTENT, Need.LABEL} if of == "calls" else {Need.RUN_LABEL, Need.SEVERAL}
        return self.needs | more

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each pair."""
        if group.job.choice("of", _OF) == "calls":
            yield from records_of(pairs(group), _row)
            return
        for one in contests(group):
            if isinstance(one, Dropped):
                yield one
                continue
            won, lost = specification(one.won), specification(one.lost)
            asked = _asked(group)
            data = {
                "chosen": [*asked, {"role": "assistant", "content": won.text}],
                "rejected": [*asked, {"role": "assistant", "content": lost.text}],
                "margin": one.margin,
                "chosen_spans": won.to_dict(),
                "rejected_spans": lost.to_dict(),
                "rejected_run_id": one.lost.id,
            }
            runs = (one.won.id, one.lost.id)
            weight = one.won.weight
            yield Record(data, runs, (), weight, label=one.margin, group=group.task_id)


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "chosen": messages([*pair.chosen.prompt, *pair.chosen.completion]),
        "rejected": messages([*pair.chosen.prompt, *pair.rejected.completion]),
    }


def _asked(group: Group) -> list[dict[str, Any]]:
    """Return the task's own words, where content is there; else its id stands for it."""
    for call in (call for run in group.runs for call in run.calls[:1]):
        try:
            said = [one for one in call.prompt if one["role"] == "user"][:1]
        except ContentError:
            continue
        if said:
            return said
    return [{"role": "user", "content": group.task_id}]
