"""`trl-rollout`: samples with advantage, old log probabilities and version, for asynchronous GRPO.

Fields are those of TRL's `RolloutSample`; `old_log_probs` and `completion_mask` have an
entry for each of `input_ids`, 0 on the prompt, as its own worker makes them (read in
TRL's tests of the asynchronous trainer).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from orchtrace_datasets import groups, stages
from orchtrace_datasets.trl_messages import messages
from orchtrace_datasets.trl_sft_tokens import with_prompt
from orchtrace_otel.datasets import Dropped, Group, Need, Outcome, Record, Run, Writer


class TrlRollout(Writer):
    """One row a call, compared within its group: of its task and role unless said."""

    name: ClassVar[str] = "trl-rollout"
    about: ClassVar[str] = "TRL's RolloutWorkerProtocol (1.16), asynchronous GRPO: RolloutSample"
    needs: ClassVar[frozenset[Need]] = frozenset(
        {Need.CONTENT, Need.TOKENS, Need.LOGPROBS, Need.LABEL, Need.TASK, Need.ON_POLICY}
    )
    settings: ClassVar[Any] = {**groups.SETTINGS, **stages.SETTINGS}
    loses: ClassVar[tuple[str, ...]] = (
        "versions that are no numbers: `model_version` is the number in them, else 0; "
        "`policy_version` beside it is the word",
        "advantages of single tokens: a sample has one",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each call that has others to be compared with."""
        now = stages.current(group.job.setting("current", ""), group.job.newest)
        yield from _leave_out_stale(group, now)
        of_run = {run.id: stages.versions(run) for run in group.runs}
        for one in groups.advantages(group):
            if isinstance(one, Dropped):
                yield one
            else:
                yield _record(one, of_run[one.call.run.id])


def _leave_out_stale(group: Group, now: Mapping[str, str]) -> Iterator[Dropped]:
    for run in group.runs if now else ():
        yield from _stale_of(run, now)


def _stale_of(run: Run, now: Mapping[str, str]) -> Iterator[Dropped]:
    made_by = stages.versions(run)
    fresh = [call for call in run.chosen if not stages.is_stale(call, made_by, now)]
    for call in run.chosen:
        if call not in fresh:
            yield Dropped("stale", run.id, call.id)
    run.chosen = fresh


def _record(one: groups.Advantage, made_by: dict[str, str]) -> Record:
    call = one.call
    ids, mask = with_prompt(call)
    data = {
        "prompt": messages(call.prompt),
        "completion": messages(call.completion),
        "input_ids": ids,
        "completion_mask": mask,
        "old_log_probs": [0.0] * len(call.tokens.prompt_ids) + list(call.tokens.logprobs),
        "advantage": one.value,
        "model_version": _number(call.policy_version),
        "group_id": int.from_bytes(hashlib.sha256(one.group.encode()).digest()[:4]),
        "metrics": {"reward": call.label.value, "group_mean": one.mean},
        "group": one.group,
        "agent": call.agent,
        "role": call.role,
        "policy_version": call.policy_version,
        "policy_versions": [f"{agent}={version}" for agent, version in sorted(made_by.items())],
        "stage": call.run.stage,
        "group_runs": one.runs,
        "calls_in_run": one.calls_in_run,
        "logprobs_kind": call.tokens.logprobs_kind,
        "temperature": call.content.parameters.get("temperature"),
    }
    return Record(
        data, (call.run.id,), (call.id,), call.run.weight, label=call.label.value, group=one.group
    )


def _number(version: str | None) -> int:
    found = re.search(r"\d+", version or "")
    return int(found[0]) if found else 0
