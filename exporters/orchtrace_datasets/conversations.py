"""Calls that continue one another, token by token, as one sequence with several completions.

Each call of a conversation reads what was said before; only where the next prompt begins
with the very tokens of the last call, prompt and completion, are they one sequence.
Everything between two completions is what others wrote, and masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orchtrace_datasets.provenance import Sampled, sampled
from orchtrace_otel.datasets import Call, Job


@dataclass(slots=True)
class Conversation:
    """A sequence.

    Attributes:
        prompt_ids: What was read before the first completion.
        ids: Everything after it.
        mask: One for each of `ids`: 1 where the policy sampled it.
        logprobs: One for each of `ids`, 0 where the mask is; empty where one call has none.
        calls: Whose completions they are, in order.
    """

    prompt_ids: list[int]
    ids: list[int] = field(default_factory=list[int])
    mask: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    calls: list[Call] = field(default_factory=list[Call])

    def is_continued_by(self, prompt_ids: list[int]) -> bool:
        """Whether a prompt begins with all of the sequence."""
        length, whole = len(self.prompt_ids), len(self.prompt_ids) + len(self.ids)
        return (
            prompt_ids[:length] == self.prompt_ids
            and prompt_ids[length:whole] == self.ids
            and len(prompt_ids) >= whole
        )

    def append(self, call: Call, tokens: Sampled) -> None:
        """Add what a call read since, and what it wrote."""
        between = tokens.prompt_ids[len(self.prompt_ids) + len(self.ids) :]
        has_logprobs = bool(tokens.logprobs) and (bool(self.logprobs) or not self.calls)
        self.ids += [*between, *tokens.ids]
        self.mask += [*(0 for _ in between), *tokens.mask]
        if has_logprobs:
            self.logprobs += [*(0.0 for _ in between), *tokens.logprobs]
        else:
            self.logprobs = []
        self.calls.append(call)


def conversations(calls: Iterable[Call], job: Job, *, joined: bool) -> Iterator[Conversation]:
    """Join calls of one instance that continue one another; each call is in one conversation.

    Args:
        calls: In order of their start; each has tokens that are good enough.
        job: What is asked for.
        joined: Whether they are joined at all; else each call is a conversation.
    """
    last: Conversation | None = None
    for call in calls:
        tokens = sampled(call, job)
        if tokens is None:
            continue
        if last is None or not joined or not last.is_continued_by(tokens.prompt_ids):
            if last is not None:
                yield last
            last = Conversation(tokens.prompt_ids)
        last.append(call, tokens)
    if last is not None:
        yield last
