"""`trl-sft`: conversations with tools, for TRL's `SFTTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import orjson

from orchtrace_datasets.trl_messages import messages
from orchtrace_otel.datasets import Group, Need, Outcome, Writer, of_call


class TrlSft(Writer):
    """One row a call: the prompt, and the completion as its last message.

    The trainer's loss falls on the completion alone, since `prompt` and `completion` are
    columns of their own; a later call of the same conversation is a row of its own.
    """

    name: ClassVar[str] = "trl-sft"
    about: ClassVar[str] = "TRL's SFTTrainer (1.16): prompt, completion, tools"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT})
    loses: ClassVar[tuple[str, ...]] = (
        "token ids, log probabilities and policy versions: the trainer makes tokens anew",
        "rewards, beyond choosing rows by --min-reward and --max-reward",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each call."""
        for call in group.calls:
            yield of_call(
                call,
                {
                    "prompt": messages(call.prompt),
                    "completion": messages(call.completion),
                    "tools": orjson.dumps(call.tools).decode(),
                },
            )
