"""A run as spans of Agent Lightning 0.3: agents, their calls, and annotations with rewards.

0.3 gives a reward to the call that began last among those that had ended and have none
yet (`agentlightning/adapter/triplet.py` of 0.3.0, `FIRST_OCCURRENCE`). An annotation
begins where its call ends, and of calls that end together the later begun has the
earlier annotation, so that each finds its own. Beside that it names its call, by link.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from orchtrace_datasets.exchange import began, ended, finished
from orchtrace_datasets.provenance import sampled
from orchtrace_datasets.stretches import instance_of
from orchtrace_otel.datasets import Call, Group, Record, Run

Json: TypeAlias = dict[str, Any]

CALL: Final = "openai.chat.completion"
"""Name of a call's span, as 0.3's adapters look for it."""

ANNOTATION: Final = "agentlightning.annotation"
"""Name of the span that has a reward."""

_ATTEMPT: Final = "0"


def rollout_of_spans(run: Run, group: Group) -> Record:
    """Return one run with its spans, in order of their beginning."""
    spans = sorted(_spans(run, group), key=lambda span: float(span["start_time"]))
    resource = {
        "agentlightning.rollout_id": run.id,
        "agentlightning.attempt_id": _ATTEMPT,
        "service.name": "orchtrace",
    }
    for number, span in enumerate(spans):
        span["sequence_id"] = number
        span["resource"] = {"attributes": resource, "schema_url": ""}
    first = run.chosen[0]
    data = {
        "rollout": {
            "rollout_id": run.id,
            "attempt_id": _ATTEMPT,
            "input": {"task_id": group.task_id, "messages": first.prompt},
            "mode": "train" if group.split == "train" else "val",
            "metadata": {
                "run_id": run.id,
                "weight": run.weight,
                "label_missing": run.label.missing,
            },
        },
        "spans": spans,
    }
    label = run.label
    turns = [call.id for call in run.chosen]
    return Record(data, (run.id,), turns, run.weight, label.missing, label.value, group.task_id)


def _spans(run: Run, group: Group) -> Iterator[Json]:
    root = _span_id(f"{run.id}/")
    instances: dict[str, list[Call]] = {}
    for call in run.chosen:
        instances.setdefault(instance_of(call), []).append(call)
    yield _span(run, root, None, "orchtrace.run", _around(run.chosen), {})
    for name, calls in instances.items():
        parent = _span_id(f"{run.id}/{name}")
        about = {"agent.name": calls[0].agent or "agent", "orchtrace.instance": name}
        if calls[0].role is not None:
            about["orchtrace.role"] = calls[0].role
        yield _span(run, parent, root, f"agent {name}", _around(calls), about)
        for call in calls:
            times = (began(call), ended(call))
            yield _span(run, call.id, parent, CALL, times, dict(_attributes(call, group)))
    ties: dict[float, int] = {}
    for call in sorted(run.chosen, key=lambda one: (ended(one), -began(one), -one.row["index"])):
        end = ended(call)
        at = end + ties.get(end, 0) * 1e-6
        ties[end] = ties.get(end, 0) + 1
        span_id = _span_id(f"{run.id}/{call.id}/reward")
        parent = _span_id(f"{run.id}/{instance_of(call)}")
        yield _span(run, span_id, parent, ANNOTATION, (at, at), _reward(call))


def _around(calls: Iterable[Call]) -> tuple[float, float]:
    held = list(calls)
    return min(began(call) for call in held), max(ended(call) for call in held)


def _reward(call: Call) -> Mapping[str, Any]:
    return {
        "agentlightning.reward.0.name": call.label.component,
        "agentlightning.reward.0.value": float(call.label.value or 0.0),
        "agentlightning.link.0.key_match": "span_id",
        "agentlightning.link.0.value_match": call.id,
    }


def _attributes(call: Call, group: Group) -> Iterator[tuple[str, Any]]:
    yield "gen_ai.request.model", call.model or "unknown"
    yield "gen_ai.response.model", call.model or "unknown"
    # Calls of one such id count once in 0.3, and a provider's cache answers with one id twice.
    yield "gen_ai.response.id", call.id
    temperature = call.content.parameters.get("temperature")
    if temperature is not None:
        yield "gen_ai.request.temperature", temperature
    for number, said in enumerate(call.prompt):
        yield from _message(f"gen_ai.prompt.{number}", said)
    yield from _message("gen_ai.completion.0", call.completion[0])
    yield "gen_ai.completion.0.finish_reason", finished(call)
    if call.policy_version is not None:
        yield "orchtrace.policy_version", call.policy_version
    tokens = sampled(call, group.job)
    if tokens is not None:
        yield "prompt_token_ids", tokens.prompt_ids
        yield "response_token_ids", tokens.ids
        told = [{"logprob": value} for value in tokens.logprobs]
        yield "logprobs.content", orjson.dumps(told).decode()


def _message(prefix: str, said: Json) -> Iterator[tuple[str, Any]]:
    yield f"{prefix}.role", said["role"]
    yield f"{prefix}.content", said["content"]
    if said.get("tool_calls"):
        yield f"{prefix}.tool_calls", orjson.dumps(said["tool_calls"]).decode()
    if said.get("tool_call_id"):
        yield f"{prefix}.tool_call_id", said["tool_call_id"]


def _span(  # noqa: PLR0913 - one argument a part of a span
    run: Run,
    span_id: str,
    parent: str | None,
    name: str,
    times: tuple[float, float],
    attributes: Mapping[str, Any],
) -> Json:
    trace_id = _trace_id(run)
    return {
        "rollout_id": run.id,
        "attempt_id": _ATTEMPT,
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_id": parent,
        "name": name,
        "status": {"status_code": "OK", "description": None},
        "attributes": dict(attributes),
        "events": [],
        "links": [],
        "start_time": times[0],
        "end_time": times[1],
        "context": _context(trace_id, span_id),
        "parent": None if parent is None else _context(trace_id, parent),
    }


def _context(trace_id: str, span_id: str) -> Json:
    return {"trace_id": trace_id, "span_id": span_id, "is_remote": False, "trace_state": {}}


def _trace_id(run: Run) -> str:
    told = run.id.partition("-")[0]
    is_one = re.fullmatch(r"[0-9a-f]{32}", told) is not None
    return told if is_one else hashlib.blake2b(run.id.encode(), digest_size=16).hexdigest()


def _span_id(of: str) -> str:
    return hashlib.blake2b(of.encode(), digest_size=8).hexdigest()
