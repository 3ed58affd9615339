"""Stretches of an instance's calls that earned the same, and who they are compared with.

Trainers of whole trajectories give each one reward. A trajectory of ours is therefore an
instance of an agent in one run, parted wherever the label changes: calls that earned
something of their own stand alone, a conversation with one reward stays whole. Parallel
siblings are instances, so that none of them is taken for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from orchtrace_otel.datasets import Call, Dropped, Group, Label, Run

NAMES: Final[Mapping[str, str]] = {
    "groups": "`role` or `agent`: whose trajectories are compared with one another; default "
    "`role`, and the agent where it has none",
}
_NAMES: Final = ("role", "agent")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Calls of one instance that follow one another and have one label.

    Attributes:
        id: Unique: the run, the instance, and the first call's place in the run.
        calls: In order of their start; at least one.
    """

    id: str
    calls: Sequence[Call]

    @property
    def run(self) -> Run:
        """The run."""
        return self.calls[0].run

    @property
    def label(self) -> Label:
        """What each of the calls is labelled with."""
        return self.calls[0].label

    @property
    def agent(self) -> str:
        """Whose calls they are."""
        return self.calls[0].agent

    @property
    def instance(self) -> str:
        """Which life of the agent."""
        return instance_of(self.calls[0])

    @property
    def turns(self) -> list[str]:
        """Ids of the calls."""
        return [call.id for call in self.calls]

    def about(self) -> dict[str, Any]:
        """Where it comes from and what its reward is, as JSON, for a format's free fields."""
        first = self.calls[0]
        run, label = first.run, first.label
        return {
            "run_id": run.id,
            "turn_ids": self.turns,
            "weight": run.weight,
            "label_missing": label.missing,
            "task_id": run.row["task_id"],
            "agent": first.agent,
            "instance": instance_of(first),
            "role": first.role,
            "parent_agent": first.row.get("parent_agent"),
            "reward_component": label.component,
            "reward_unit": label.unit,
            "stop_reason": run.row.get("stop_reason"),
        }


def instance_of(call: Call) -> str:
    """Return which life of an agent a call belongs to; the agent's name where nobody said."""
    return str(call.row.get("instance") or call.agent or "agent")


def stretches(run: Run) -> Iterator[Stretch]:
    """Return a run's stretches of chosen calls, in order of their first call."""
    instances: dict[str, list[Call]] = {}
    for call in run.chosen:
        instances.setdefault(instance_of(call), []).append(call)
    found = [
        Stretch(f"{run.id}/{name}/{members[0].row['index']}", members)
        for name, calls in instances.items()
        for members in _of_one_label(calls)
    ]
    yield from sorted(found, key=lambda one: int(one.calls[0].row["index"]))


def _of_one_label(calls: Iterable[Call]) -> Iterator[list[Call]]:
    for _, members in groupby(calls, key=_whose):
        yield list(members)


def _whose(call: Call) -> tuple[Label, str]:
    # A reward that names a turn is that turn's alone, even where the next one earned as much.
    return call.label, call.id if call.label.unit == "turn" else ""


def compared(group: Group) -> Iterator[tuple[str, list[Stretch]] | Dropped]:
    """Return the stretches of one task by the name of whom they are compared with.

    Names are of the task and the role or agent. What is alone under its name is dropped:
    its advantage would be nothing.

    Raises:
        ConfigError: If the setting `groups` is neither.
    """
    by = group.job.choice("groups", _NAMES)
    named: dict[str, list[Stretch]] = {}
    for run in group.runs:
        for stretch in stretches(run):
            first = stretch.calls[0]
            name = first.agent if by == "agent" else first.role or first.agent
            named.setdefault(name or "agent", []).append(stretch)
    for name, members in sorted(named.items()):
        if len(members) > 1:
            yield name, members
            continue
        for call in members[0].calls:
            yield Dropped("one_sample", call.run.id, call.id)
