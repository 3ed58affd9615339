"""Why something is not in a data set: one word each, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS: Final[Mapping[str, str]] = {
    "filtered": "a filter of this export leaves it out",
    "truncated": "a limit on length cut its completion, and --drop-truncated leaves such out",
    "verdict_in_prompt": "its prompt holds a judge's verdict, which would teach the answer",
    "no_calls": "its run has no LLM call",
    "no_content": "its content was not captured; run with content on, and name its store with "
    "--content",
    "content_missing": "its content is not in the store, or a part of it; it was deleted, or never "
    "reached it",
    "no_completion": "its completion is empty",
    "redacted": "what it wrote was redacted or cut, what it read was cut, or its token ids were "
    "dropped for that",
    "no_token_ids": "the server gave no token ids; ask it for them, or take a format of texts",
    "retokenised": "its token ids were made from text afterwards; --retokenised takes them",
    "no_logprobs": "the server gave no log probabilities of the completion",
    "no_task_id": "its run says no task, so that no other run can be compared; give task_id=, "
    "or set ORCHTRACE_KEY, which makes one of its input",
    "one_sample": "nothing else answers the same prompt, or the same task in its role: there is "
    "nothing to compare",
    "no_reward": "no reward says how good it was; name one with --reward",
    "ambiguous_reward": "runs have several rewards, none of them `task`; say which with --reward",
    "contradictory_rewards": "its rewards contradict each other",
    "no_margin": "no other answer to the same prompt is better or worse by --margin",
    "confounded": "what is better differs too much in length or cost to say why it is",
    "no_propensity": "nobody recorded with which chance it was chosen",
    "no_decision": "its run has no decision of that kind",
    "other_model": "another model than the trainee wrote it, and there are no log probabilities "
    "to correct for that",
    "stale": "a policy was updated since",
    "duplicate": "an equal record is there already",
    "unwritable": "the format cannot say it",
    "unreadable": "a file could not be read",
}
"""A word for each reason; docs/datasets.md is made from it."""
