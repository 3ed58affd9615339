"""`art`: groups of trajectories that are compared, each call as it was exchanged, for ART."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias

from orchtrace_datasets.exchange import began, ended, request, response
from orchtrace_datasets.provenance import SETTINGS, leave_out_forced, sampled, spared, version_span
from orchtrace_datasets.stretches import NAMES, Stretch, compared
from orchtrace_otel.datasets import Call, Dropped, Group, Job, Need, Outcome, Record, Writer

Json: TypeAlias = dict[str, Any]


class Art(Writer):
    """One row a group of one task and role: a `TrajectoryGroup`, as its model reads it.

    A trajectory has one reward, so that it is an instance of an agent, or a stretch of
    its calls that earned the same. Calls stand in `exchanges`, where the exact ids and
    log probabilities of prompt and completion are found.
    """

    name: ClassVar[str] = "art"
    about: ClassVar[str] = "OpenPipe's ART (0.5.23): TrajectoryGroup"
    needs: ClassVar[frozenset[Need]] = frozenset(
        {Need.CONTENT, Need.TOKENS, Need.LABEL, Need.TASK, Need.ON_POLICY}
    )
    is_open: ClassVar[bool] = False
    settings: ClassVar[Any] = {**SETTINGS, **NAMES}
    loses: ClassVar[tuple[str, ...]] = (
        "causes between agents: a group is of one role",
        "advantages: the trainer computes them within the group",
        "versions that are no numbers: policy versions are the number in them",
        "which tokens a server forced: such calls are left out",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """All of them, but for tokens where they are optional."""
        return self.needs - spared(group.job)

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a group for each role or agent that has several trajectories."""
        yield from leave_out_forced(group)
        for one in compared(group):
            yield one if isinstance(one, Dropped) else _record(*one, group)


def _record(name: str, members: list[Stretch], group: Group) -> Record:
    runs = {stretch.run.id: stretch.run for stretch in members}
    data = {
        "trajectories": [_trajectory(stretch, group.job) for stretch in members],
        "metadata": {"task_id": group.task_id, "group": name, "runs": len(runs)},
    }
    return Record(
        data,
        sorted(runs),
        [turn for stretch in members for turn in stretch.turns],
        sum(run.weight for run in runs.values()),
        group=f"{group.task_id}:{name}",
    )


def _trajectory(stretch: Stretch, job: Job) -> Json:
    oldest, newest = version_span(stretch.calls) or (None, None)
    return {
        "exchanges": {"chat_completions": [_exchange(call, job) for call in stretch.calls]},
        "reward": stretch.label.value,
        "initial_policy_version": oldest,
        "final_policy_version": newest,
        "metrics": dict(stretch.run.row.get("rewards", {})),
        "metadata": {**stretch.about(), "id": stretch.id},
    }


def _exchange(call: Call, job: Job) -> Json:
    return {
        "request": request(call),
        "response": response(call, sampled(call, job), int(ended(call))),
        "start_time": _at(began(call)),
        "end_time": _at(ended(call)),
    }


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
