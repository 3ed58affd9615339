"""`rllm`: whole runs as `Episode` lines, an agent's trajectory each, a call a step, for rLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from orchtrace_datasets.provenance import SETTINGS, leave_out_forced, number_of, sampled, spared
from orchtrace_datasets.stretches import NAMES, Stretch, compared
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Record, Run, Writer

Json: TypeAlias = dict[str, Any]

_ENDED: Final[Mapping[str, str]] = {
    "information_complete": "env_done",
    "quality_met": "env_done",
    "verified": "env_done",
    "max_steps": "max_turns_exceeded",
    "time_budget": "timeout",
    "token_budget": "max_response_length_exceeded",
    "error": "error",
}
"""Our stops in the words of rLLM's `TerminationReason`; all others are `unknown` there."""


class Rllm(Writer):
    """One row a run: an `Episode`, as its `from_dict` reads it.

    rLLM compares trajectories of one name within a task, so that every role or agent has
    a baseline of its own (`group_id` is `task:name`). An instance whose calls earned
    different things is a trajectory for each stretch of them, so that a trajectory's
    reward and its steps' rewards are the same however the trainer reads them.
    """

    name: ClassVar[str] = "rllm"
    about: ClassVar[str] = "rLLM (0.3.0.pre of August 2026): Episode, Trajectory, Step"
    needs: ClassVar[frozenset[Need]] = frozenset(
        {Need.CONTENT, Need.TOKENS, Need.LABEL, Need.TASK, Need.ON_POLICY}
    )
    is_open: ClassVar[bool] = False
    settings: ClassVar[Any] = {
        "correct": "reward of the run from which the episode is correct; default 0.5",
        **SETTINGS,
        **NAMES,
    }
    loses: ClassVar[tuple[str, ...]] = (
        "causes between agents: an episode is a list of trajectories",
        "versions that are no numbers: `weight_version` is the number in them",
        "which tokens a server forced: such calls are left out",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """All of them, but for tokens where they are optional."""
        return self.needs - spared(group.job)

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return an episode for each run that has something to compare."""
        yield from leave_out_forced(group)
        trajectories: dict[str, list[tuple[str, Stretch]]] = {}
        least = group.job.number("correct", 0.5)
        for one in compared(group):
            if isinstance(one, Dropped):
                yield one
                continue
            name, members = one
            for stretch in members:
                trajectories.setdefault(stretch.run.id, []).append((name, stretch))
        for place, run in enumerate(group.runs):
            if run.id in trajectories:
                found = sorted(trajectories[run.id], key=lambda named: _place(named[1]))
                yield _episode(run, place, found, group, least)


def _place(stretch: Stretch) -> int:
    return int(stretch.calls[0].row["index"])


def _episode(
    run: Run, place: int, trajectories: list[tuple[str, Stretch]], group: Group, least: float
) -> Record:
    row = run.row
    turns = [turn for _, stretch in trajectories for turn in stretch.turns]
    # rLLM reads the task up to the first colon, and the number of the rollout after it.
    task = group.task_id.replace("%", "%25").replace(":", "%3A")
    data = {
        "id": f"{task}:{place}",
        "task": {"id": group.task_id, "question": _asked(trajectories)},
        "termination_reason": _ENDED.get(str(row.get("stop_reason")), "unknown"),
        "is_correct": run.label.value is not None and run.label.value >= least,
        "session_id": run.id,
        "trajectories": [_trajectory(name, one, group) for name, one in trajectories],
        "metrics": {**row.get("metrics", {}), **row.get("rewards", {})},
        "info": {
            "run_id": run.id,
            "weight": run.weight,
            "label_missing": run.label.missing,
            "stop_reason": row.get("stop_reason"),
            "topology": row.get("topology"),
        },
    }
    label = run.label
    return Record(data, (run.id,), turns, run.weight, label.missing, label.value, group.task_id)


def _asked(trajectories: list[tuple[str, Stretch]]) -> str | None:
    first = trajectories[0][1].calls[0]
    return next((said["content"] for said in first.prompt if said["role"] == "user"), None)


def _trajectory(name: str, stretch: Stretch, group: Group) -> Json:
    return {
        "uid": stretch.id,
        "name": name,
        "task": {"id": group.task_id},
        "steps": [_step(call, group) for call in stretch.calls],
        "reward": stretch.label.value,
        "info": stretch.about(),
    }


def _step(call: Call, group: Group) -> Json:
    tokens = sampled(call, group.job)
    said = call.completion[0]
    returns: Mapping[str, float] = call.row.get("return") or {}
    return {
        "prompt_ids": [] if tokens is None else tokens.prompt_ids,
        "response_ids": [] if tokens is None else tokens.ids,
        "logprobs": [] if tokens is None else tokens.logprobs,
        "chat_completions": [*call.prompt, *call.completion],
        "observation": call.prompt[-1]["content"] if call.prompt else None,
        "thought": said.get("reasoning_content", ""),
        "action": said.get("tool_calls"),
        "model_response": said["content"],
        "model_output": None,
        "info": {
            "turn_id": call.id,
            "tools": call.tools,
            "model": call.model,
            "policy_version": call.policy_version,
            "token_provenance": call.tokens.provenance,
            "sampling": dict(call.content.parameters),
            "finish_reason": call.row.get("finish_reason"),
        },
        "reward": call.label.value,
        "done": bool(call.row.get("done")),
        "mc_return": returns.get(call.label.component or "", 0.0),
        "advantage": call.row.get("advantage"),
        "weight_version": number_of(call.policy_version),
    }
