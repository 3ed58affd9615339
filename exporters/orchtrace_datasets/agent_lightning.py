"""`agent-lightning`: rollouts with their events, or with their spans, for Agent Lightning.

Release 1.0 knows one reward a rollout and gives it to all its calls, and of two calls of
a rollout with one prompt it keeps the last. A rollout is therefore a stretch of one
instance's calls that earned the same and read different tokens: nothing is given to
another call, and nothing is lost. Release 0.3 matches rewards to calls, so there a
rollout is a run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, TypeAlias

from orchtrace_datasets.agent_lightning_spans import rollout_of_spans
from orchtrace_datasets.exchange import ended, finished, request, response, usage
from orchtrace_datasets.provenance import SETTINGS, leave_out_forced, number_of, sampled, spared
from orchtrace_datasets.stretches import NAMES, Stretch, compared
from orchtrace_otel.datasets import Call, Dropped, Group, Job, Need, Outcome, Record, Writer

Json: TypeAlias = dict[str, Any]

_RELEASES: Final = ("1.0", "0.3")
_ATTEMPT: Final = "0"
"""The attempt that 1.0's server reads where none was begun."""


class AgentLightning(Writer):
    """One row a rollout: what to POST to `/api/rollouts`, and each event after it.

    With `-s release=0.3` a row is a run with the spans that 0.3's store takes, rewards as
    annotations beside the calls that they name.
    """

    name: ClassVar[str] = "agent-lightning"
    about: ClassVar[str] = "Agent Lightning: events of 1.0 (1.0.2), spans of 0.3 (0.3.0)"
    needs: ClassVar[frozenset[Need]] = frozenset(
        {Need.CONTENT, Need.TOKENS, Need.LOGPROBS, Need.LABEL, Need.TASK, Need.ON_POLICY}
    )
    is_open: ClassVar[bool] = False
    settings: ClassVar[Any] = {
        "release": "`1.0` or `0.3`; default `1.0`",
        **SETTINGS,
        **NAMES,
    }
    loses: ClassVar[tuple[str, ...]] = (
        "agents, but for their names, in 1.0: a rollout is of one policy, and `input.data_id` says "
        "what it is compared with",
        "advantages: the trainer computes them",
        "versions that are no numbers: `version` is the number in them",
        "which tokens a server forced: such calls are left out",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """All of them, but for tokens and log probabilities where they are optional."""
        return self.needs - spared(group.job)

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a rollout for each stretch, or for each run."""
        release = group.job.choice("release", _RELEASES)
        yield from leave_out_forced(group)
        if release == "0.3":
            yield from (rollout_of_spans(run, group) for run in group.runs if run.chosen)
            return
        for one in compared(group):
            if isinstance(one, Dropped):
                yield one
                continue
            name, members = one
            parts = (part for stretch in members for part in _of_one_prompt_each(stretch))
            yield from (_rollout(name, place, part, group) for place, part in enumerate(parts))


def _of_one_prompt_each(stretch: Stretch) -> Iterator[Stretch]:
    """Part a stretch where a call reads the same tokens as one before it: 1.0 keeps the last."""
    held: list[Call] = []
    seen: set[tuple[int, ...]] = set()
    for call in stretch.calls:
        prompt = call.tokens.prompt_ids
        if prompt and prompt in seen:
            yield Stretch(stretch.id, held)
            held, seen = [], set()
        held.append(call)
        seen.add(prompt)
    yield Stretch(stretch.id, held)


def _rollout(name: str, place: int, stretch: Stretch, group: Group) -> Record:
    label = stretch.label
    rollout_id = _in_a_path(f"{stretch.run.id}.{stretch.calls[0].id}")
    compared_with = f"{group.task_id}:{name}"
    first = stretch.calls[0]
    data = {
        "rollout": {
            "rollout_id": rollout_id,
            "input": {
                "data_id": compared_with,
                "task_id": group.task_id,
                "messages": first.prompt,
            },
            "is_train": group.split == "train",
            "metadata": {"sample_idx_in_batch": place, **stretch.about()},
        },
        "attempt_id": _ATTEMPT,
        "state": "succeeded",
        "events": [*(_called(call, group.job) for call in stretch.calls), _earned(stretch)],
    }
    run = stretch.run
    return Record(
        data,
        (run.id,),
        stretch.turns,
        run.weight,
        label.missing,
        label.value,
        compared_with,
    )


def _in_a_path(rollout_id: str) -> str:
    """Return an id that can stand in a URL's path; ours can, those of other tracers may not."""
    is_plain = re.fullmatch(r"[\w.~-]+", rollout_id, re.ASCII) is not None
    return rollout_id if is_plain else hashlib.blake2b(rollout_id.encode()).hexdigest()[:32]


def _called(call: Call, job: Job) -> Json:
    version = number_of(call.policy_version)
    seconds = call.row.get("duration_s")
    data = {
        "model": call.model or "unknown",
        "model_version": version,
        "request": request(call),
        "response": response(call, sampled(call, job), int(ended(call))),
        "latency_ms": None if seconds is None else seconds * 1e3,
        "http_status": 200,
        "status": "ok",
        "usage": usage(call),
        "finish_reason": finished(call),
        "server": {"model": call.model, "version": version},
        "turn_id": call.id,
    }
    return {"event_type": "model_request", "data": data}


def _earned(stretch: Stretch) -> Json:
    label = stretch.label
    reason = f"{label.component} of the {label.unit}"
    data = {"value": label.value, "source": "orchtrace", "reason": reason}
    return {"event_type": "reward", "data": data}
