"""What of a group a format gets: filters, verdicts, cut calls, and what the format needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.datasets.chat import chat, is_chat
from orchtrace_otel.datasets.runs import Call, Dropped, Group, Run
from orchtrace_otel.datasets.writer import Need, Writer
from orchtrace_otel.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchtrace_otel.content.turn import TurnContent
    from orchtrace_otel.datasets.job import Job


def choose(group: Group, writer: Writer) -> Iterator[Dropped]:
    """Leave in a group what the job wants and the writer can use; say what is left out."""
    job = group.job
    needs = writer.needs_of(group)
    kept: list[Run] = []
    for run in group.runs:
        reason = _why_not_run(run, job, needs)
        if reason is not None:
            yield Dropped(reason, run.id)
            continue
        yield from _choose_calls(run, job, needs)
        if run.chosen or not run.calls:
            kept.append(run)
    if Need.SEVERAL in needs and len(kept) == 1:
        yield Dropped("one_sample", kept[0].id)
        kept = []
    group.runs = kept


def _why_not_run(run: Run, job: Job, needs: frozenset[Need]) -> str | None:
    if not _is_wanted(run, job):
        return "filtered"
    if needs & {Need.TASK, Need.SEVERAL} and not run.has_task:
        return "no_task_id"
    if Need.RUN_LABEL in needs:
        if run.label.value is None:
            return run.label.missing
        if not _is_within(run.label.value, job):
            return "filtered"
    if not run.calls and needs & _OF_CALLS:
        return "no_calls"
    return None


def _is_wanted(run: Run, job: Job) -> bool:
    row = run.row
    began = row.get("start_unix_nano")
    return (
        (job.since is None or (began is not None and began >= job.since))
        and (job.until is None or (began is not None and began < job.until))
        and (not job.stop_reasons or row.get("stop_reason") in job.stop_reasons)
        and (not job.topologies or row.get("topology") in job.topologies)
    )


def _is_within(value: float, job: Job) -> bool:
    return (job.least is None or value >= job.least) and (job.most is None or value <= job.most)


def _choose_calls(run: Run, job: Job, needs: frozenset[Need]) -> Iterator[Dropped]:
    verdicts = _Verdicts(run, job)
    tests: list[Callable[[Call], str | None]] = [
        partial(_is_filtered, job=job, with_label=Need.RUN_LABEL not in needs),
        *(partial(_TESTS[need], job=job) for need in Need if need in needs & _OF_CALLS),
        verdicts.why_not,
    ]
    chosen: list[Call] = []
    for call in run.calls:
        try:
            reason = next((found for test in tests if (found := test(call)) is not None), None)
        except ContentError:
            reason = "content_missing"
        if reason is None:
            chosen.append(call)
        else:
            yield Dropped(reason, run.id, call.id)
    run.chosen = chosen


def _is_filtered(call: Call, *, job: Job, with_label: bool) -> str | None:
    if job.agents and call.agent not in job.agents:
        return "filtered"
    if job.roles and call.role not in job.roles:
        return "filtered"
    if call.row.get("truncated") and not job.keep_truncated:
        return "truncated"
    value = call.label.value
    if with_label and (job.least is not None or job.most is not None):
        if value is None:
            return call.label.missing
        if not _is_within(value, job):
            return "filtered"
    return None


def _lacks_content(call: Call, *, job: Job) -> str | None:
    if not call.has_content or job.content is None:
        return "no_content"
    content = call.content
    if not any(said.get(key) for said in call.completion for key in _WRITTEN):
        return "no_completion" if all(map(is_chat, content.completion[:1])) else "unwritable"
    if not content.prompt:  # a limit left room for the answer, and none for what it answers
        return "content_missing"
    # What was taken out of a prompt, the policy does without; what it wrote is to be learned
    # as it wrote it, and after the whole prompt.
    if content.completion[0].get("flags") or any(_is_cut(one) for one in content.prompt):
        return "redacted"
    return _is_unwritable(content)


_WRITTEN: Final = ("content", "tool_calls", "reasoning_content")


def _is_unwritable(content: TurnContent) -> str | None:
    """Leave out what is read beside words: without it the words are an answer to something else."""
    told = (*content.prompt, *content.completion[:1])
    return None if all(is_chat(message) for message in told) else "unwritable"


def _is_cut(message: Mapping[str, Any]) -> bool:
    return "cut" in message.get("flags", ())


def _lacks_tokens(call: Call, *, job: Job) -> str | None:
    if not call.has_content or job.content is None:
        return "no_content"
    tokens = call.tokens
    if not tokens.ids or not tokens.prompt_ids:
        return "redacted" if tokens.why_absent == "redacted" else "no_token_ids"
    if tokens.provenance != "exact" and not job.retokenised:
        return "retokenised"
    return _is_unwritable(call.content)


def _lacks_logprobs(call: Call, *, job: Job) -> str | None:
    del job
    tokens = call.tokens
    return None if tokens.ids and len(tokens.logprobs) == len(tokens.ids) else "no_logprobs"


def _lacks_label(call: Call, *, job: Job) -> str | None:
    del job
    return call.label.missing if call.label.value is None else None


def _is_off_policy(call: Call, *, job: Job) -> str | None:
    if job.trainee is None or call.model == job.trainee:
        return None
    tokens = call.tokens
    is_correctable = tokens.ids and len(tokens.logprobs) == len(tokens.ids)
    return None if is_correctable else "other_model"


_TESTS: Final[dict[Need, Callable[..., str | None]]] = {
    Need.CONTENT: _lacks_content,
    Need.TOKENS: _lacks_tokens,
    Need.LOGPROBS: _lacks_logprobs,
    Need.LABEL: _lacks_label,
    Need.ON_POLICY: _is_off_policy,
}
_OF_CALLS: Final = frozenset(_TESTS)


class _Verdicts:
    """Finds calls whose prompt holds what a judge of the run wrote: by its ref, or its words.

    Frameworks and hosts hand words on as somebody else's: AutoGen as a user's, who is called
    like the agent. Few words are looked for as a whole message, more inside of others, too.
    """

    def __init__(self, run: Run, job: Job) -> None:
        self._judged = [call for call in run.calls if call.role in job.judges and call.has_content]
        self._job = job
        self._is_told: dict[str, bool] = {}
        self._words: frozenset[str] | None = None

    def why_not(self, call: Call) -> str | None:
        """Return `verdict_in_prompt` for such a call."""
        if not self._judged or self._job.content is None or not call.has_content:
            return None
        if self._words is None:
            written = [judge.content for judge in self._judged]
            self._is_told = {ref: True for one in written for ref in one.completion_refs}
            said = (_words_of(message) for one in written for message in one.completion)
            self._words = frozenset(filter(None, said))
        told = zip(call.content.prompt_refs, call.content.prompt, strict=True)
        return "verdict_in_prompt" if any(self._tells(*one) for one in told) else None

    def _tells(self, ref: str, message: Mapping[str, Any]) -> bool:
        found = self._is_told.get(ref)
        if found is None:
            read = _words_of(message)
            found = self._is_told[ref] = any(
                words == read or (words in read and words.count(" ") >= _FEW)
                for words in self._words or ()
            )
        return found


_FEW: Final = 3
"""Spaces in a verdict from which on it is no phrase that others say, too."""


def _words_of(message: Mapping[str, Any]) -> str:
    """Return what a message says, in whatever parts and lines."""
    return " ".join(word for said in chat([message]) for word in said["content"].split())
