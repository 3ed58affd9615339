"""`trl-grpo`: prompts with what was answered and earned, for TRL's `GRPOTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import orjson

from orchtrace_datasets.pairs import by_state, of_answers
from orchtrace_datasets.trl_messages import messages
from orchtrace_otel.datasets import Group, Need, Outcome, Writer


class TrlGrpo(Writer):
    """One row a prompt; logged completions and their rewards are columns beside it.

    The trainer samples completions of its own and hands the columns to the reward
    functions, where `logged_rewards` is a baseline and `task_id` finds a checker.
    """

    name: ClassVar[str] = "trl-grpo"
    about: ClassVar[str] = "TRL's GRPOTrainer (1.16): prompt, and columns for reward functions"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT, Need.LABEL})
    loses: ClassVar[tuple[str, ...]] = (
        "log probabilities and policy versions: the trainer samples anew; trl-rollout keeps them",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each prompt, with all its answers."""
        for calls in by_state(group.calls).values():
            first = calls[0]
            data = {
                "prompt": messages(first.prompt),
                "tools": orjson.dumps(first.tools).decode(),
                "task_id": group.task_id,
                "agent": first.agent,
                "logged_completions": [
                    orjson.dumps(messages(call.completion)).decode() for call in calls
                ],
                "logged_rewards": [call.label.value for call in calls],
            }
            yield of_answers(calls, data)
