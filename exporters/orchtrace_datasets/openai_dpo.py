"""`openai-dpo`: preference pairs as OpenAI's and Azure's fine-tuning take them.

The shape is that of OpenAI's guide to direct preference optimisation: `input` with
`messages`, `tools` and `parallel_tool_calls`, and one assistant message on either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from orchtrace_datasets.openai_messages import leave_out_thoughts, messages
from orchtrace_datasets.pairs import SETTINGS, Pair, as_bytes, of_pair, pairs
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Writer


class OpenaiDpo(Writer):
    """One row a pair. Keys of ours are in `lineage.jsonl` alone: others are refused."""

    name: ClassVar[str] = "openai-dpo"
    about: ClassVar[str] = "OpenAI's and Azure's DPO: input, preferred_output, non_preferred_output"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT, Need.LABEL, Need.TASK})
    settings: ClassVar[Any] = SETTINGS
    is_open: ClassVar[bool] = False
    loses: ClassVar[tuple[str, ...]] = (
        "rewards and margins: a pair keeps which is better",
        "token ids, log probabilities and policy versions",
        "what models thought",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each pair."""
        yield from leave_out_thoughts(group)
        for one in pairs(group, _compared):
            yield one if isinstance(one, Dropped) else replace(of_pair(one, {}), data=_row(one))


def _row(pair: Pair) -> dict[str, Any]:
    offered: list[Any] = pair.chosen.tools
    return {
        "input": {
            "messages": messages(pair.chosen.prompt),
            "tools": offered,
            "parallel_tool_calls": True,
        },
        "preferred_output": _answer(pair.chosen),
        "non_preferred_output": _answer(pair.rejected),
    }


def _answer(call: Call) -> list[dict[str, Any]]:
    return messages(call.completion)


def _compared(call: Call) -> bytes:
    """Return an answer without its thoughts: two that differ in these alone are one line twice."""
    return as_bytes(_answer(call))
