"""`openai-rft`: prompts for reinforcement fine-tuning by OpenAI, Azure and Bedrock.

`messages` and `tools` are reserved, and the last message must be a user's (OpenAI's
reference of fine-tuning, Azure's guide). Graders reach every other key as `item.KEY`:
what was answered and earned before is there for them. Bedrock asks for
`reference_answer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from orchtrace_datasets.openai_messages import leave_out_thoughts, messages
from orchtrace_datasets.pairs import by_state, of_answers
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Writer


class OpenaiRft(Writer):
    """One row a prompt; what was answered, and what it earned, are keys beside it."""

    name: ClassVar[str] = "openai-rft"
    about: ClassVar[str] = "OpenAI's, Azure's and Bedrock's reinforcement fine-tuning: messages"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT})
    loses: ClassVar[tuple[str, ...]] = (
        "rewards as such: a grader scores anew, and finds the logged ones as item.logged_rewards",
        "token ids, log probabilities and policy versions: nobody who hosts takes them",
        "what models thought",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each prompt that ends with a user's message."""
        yield from leave_out_thoughts(group)
        asked: list[Call] = []
        for call in group.calls:
            if not call.prompt or call.prompt[-1]["role"] != "user":
                yield Dropped("unwritable", call.run.id, call.id)
            else:
                asked.append(call)
        for calls in by_state(asked).values():
            yield of_answers(calls, _row(group, calls), _best(calls).label.value)


def _row(group: Group, calls: list[Call]) -> dict[str, Any]:
    first, best = calls[0], _best(calls)
    offered = {"tools": first.tools} if first.tools else {}
    return {
        "messages": messages(first.prompt),
        **offered,
        "reference_answer": _text(best),
        "reference_reward": best.label.value,
        "logged_answers": [_text(call) for call in calls],
        "logged_rewards": [call.label.value for call in calls],
        "task_id": group.task_id,
        "agent": first.agent,
        "role": first.role,
    }


def _best(calls: list[Call]) -> Call:
    """Return the call with the highest label; the first where none has one."""
    labelled = [call for call in calls if call.label.value is not None]
    return max(labelled, key=lambda call: call.label.value or 0.0) if labelled else calls[0]


def _text(call: Call) -> str:
    """Return what was answered: its text, or its calls of tools as JSON."""
    (said,) = messages(call.completion)
    calls = said.get("tool_calls")
    return str(said["content"]) if not calls else orjson.dumps(calls).decode()
