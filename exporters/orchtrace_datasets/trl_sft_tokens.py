"""`trl-sft-tokens`: the very tokens that were read and written, for TRL's `SFTTrainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from orchtrace_otel.datasets import Call, Group, Need, Outcome, Writer, of_call


class TrlSftTokens(Writer):
    """One row a call: the prompt's and the completion's ids, and a mask over both."""

    name: ClassVar[str] = "trl-sft-tokens"
    about: ClassVar[str] = "TRL's SFTTrainer (1.16), pre-tokenised: input_ids and masks"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.TOKENS})
    loses: ClassVar[tuple[str, ...]] = (
        "log probabilities and policy versions",
        "rewards, beyond choosing rows by --min-reward and --max-reward",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each call."""
        for call in group.calls:
            ids, mask = with_prompt(call)
            # Without a column `prompt` TRL heeds completion_mask only under
            # completion_only_loss=True; assistant_masks always.
            masks = {"completion_mask": mask, "assistant_masks": mask}
            yield of_call(call, {"input_ids": ids, **masks})


def with_prompt(call: Call) -> tuple[list[int], list[int]]:
    """Return a call's ids, prompt and completion, and 1 for each that the policy sampled."""
    tokens = call.tokens
    mask = list(tokens.mask) or [1] * len(tokens.ids)
    return [*tokens.prompt_ids, *tokens.ids], [0] * len(tokens.prompt_ids) + mask
