"""`verl`: prompts as verl's RL trainer reads them, or rollouts as its agent loops return them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import orjson

from orchtrace_datasets.conversations import Conversation, conversations
from orchtrace_datasets.pairs import by_state, of_answers
from orchtrace_datasets.provenance import version_span
from orchtrace_datasets.stretches import NAMES, Stretch, compared
from orchtrace_datasets.verl_files import VerlRows
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Record, Run, Writer

if TYPE_CHECKING:
    from pathlib import Path

    from orchtrace_otel.datasets.files import Sink

Json: TypeAlias = dict[str, Any]

_ROWS: Final = ("prompts", "rollouts")


class Verl(Writer):
    """One row a prompt, with what was answered to it and earned, in Parquet.

    verl samples completions of its own and scores them: `reward_model` and `data_source`
    are what it finds its function of rewards by, `extra_info` is what that gets, with the
    logged rewards in it. With `-s rows=rollouts` a row is an `AgentLoopOutput`: the
    tokens of a conversation with mask, log probabilities, reward and versions, for a loop
    of the user's own that replays them.
    """

    name: ClassVar[str] = "verl"
    about: ClassVar[str] = "verl (0.9.1): RL prompts in Parquet, or rows of AgentLoopOutput"
    settings: ClassVar[Any] = {
        "rows": "`prompts` or `rollouts`; default `prompts`",
        "data_source": "word by which a function of rewards is chosen; default `orchtrace`",
        "ground_truth": "tag of a run that has the right answer; default: none, and the text is "
        "empty",
        "agent_loop": "value of `agent_name`, which chooses verl's agent loop; default: no such "
        "column",
        **NAMES,
    }
    loses: ClassVar[tuple[str, ...]] = (
        "token ids and log probabilities, with rows=prompts: the trainer samples anew, and logged "
        "rewards reach the function of rewards alone",
        "rewards of single tokens, with rows=rollouts: a row has one, on its last token",
        "tools on offer as a column: verl has its own configuration of tools; `extra_info` has "
        "their schemas",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """Prompts need content; rollouts their tokens, a reward and a task."""
        if group.job.choice("rows", _ROWS) == "prompts":
            return self.needs
        return self.needs | {Need.TOKENS, Need.LABEL, Need.TASK, Need.ON_POLICY}

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each prompt, or each conversation."""
        if group.job.choice("rows", _ROWS) == "prompts":
            yield from _prompts(group)
            return
        for one in compared(group):
            if isinstance(one, Dropped):
                yield one
                continue
            name, members = one
            for stretch in members:
                for held in conversations(stretch.calls, group.job, joined=True):
                    yield _rollout(name, stretch, held, group)

    def sink(self, folder: Path, split: str) -> Sink:
        """Return a file of Parquet with the columns that its rows have."""
        return VerlRows(folder, split)


def _prompts(group: Group) -> Iterator[Record]:
    for state, calls in by_state(group.calls).items():
        yield of_answers(calls, _prompt(state, calls, group))


def _prompt(state: bytes, calls: list[Call], group: Group) -> Json:
    first = calls[0]
    data: Json = {
        "data_source": group.job.setting("data_source", "orchtrace"),
        "prompt": first.prompt,
        "ability": first.role or first.agent,
        "reward_model": {
            "style": "rule",
            "ground_truth": _truth((call.run for call in calls), group),
        },
        "extra_info": {
            "index": int.from_bytes(
                hashlib.sha256(group.task_id.encode() + b"\0" + state).digest()[:6]
            ),
            "split": group.split,
            "task_id": group.task_id,
            "agent": first.agent,
            "role": first.role,
            "tools": orjson.dumps(first.tools).decode(),
            "logged_completions": [orjson.dumps(call.completion).decode() for call in calls],
            "logged_rewards": [call.label.value for call in calls],
            "run_ids": [call.run.id for call in calls],
            "turn_ids": [call.id for call in calls],
        },
    }
    loop = group.job.setting("agent_loop", "")
    return data | ({"agent_name": loop} if loop else {})


def _truth(runs: Iterable[Run], group: Group) -> str:
    tag = group.job.setting("ground_truth", "")
    for run in runs:
        tags: dict[str, str] = run.row.get("tags") or {}
        if tag in tags:
            return tags[tag]
    return ""


def _rollout(name: str, stretch: Stretch, one: Conversation, group: Group) -> Record:
    calls = one.calls
    span = version_span(calls)
    last = calls[-1]
    told: Json = {
        "uid": f"{group.task_id}:{name}",
        "global_steps": None if span is None else span[1],
        "min_global_steps": None if span is None else span[0],
        "max_global_steps": None if span is None else span[1],
        **{key: value for key, value in stretch.about().items() if key not in _OURS},
        "turn_ids": [call.id for call in calls],
    }
    data: Json = {
        "prompt_ids": one.prompt_ids,
        "response_ids": one.ids,
        "response_mask": one.mask,
        "response_logprobs": one.logprobs or None,
        "reward_score": stretch.label.value,
        "num_turns": len(last.prompt) + 1,
        "metrics": {
            "generate_sequences": sum(float(call.row.get("duration_s") or 0) for call in calls)
        },
        "extra_fields": told,
    }
    run, label = stretch.run, stretch.label
    turns = [call.id for call in calls]
    group_name = f"{group.task_id}:{name}"
    return Record(data, (run.id,), turns, run.weight, label.missing, label.value, group_name)


_OURS: Final = frozenset({"run_id", "turn_ids", "weight", "label_missing"})
"""What the columns of every row have already."""
