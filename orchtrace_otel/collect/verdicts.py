"""Late rewards: log records of `gen_ai.evaluation.result`, and which run each is for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from orchtrace_otel import attributes as a
from orchtrace_otel.collect.admission import Bounds
from orchtrace_otel.collect.parts import Rejected, field, head, parsed
from orchtrace_otel.collect.undecoded import Undecoded
from orchtrace_otel.model import Reward
from orchtrace_otel.rewards.records import is_builtin_id

_TRACE_ID_DIGITS: Final = 32
_RUN_ID_DIGITS: Final = _TRACE_ID_DIGITS + 1 + 16
_MOST_BYTES: Final = 2**16
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reward that came by itself.

    Attributes:
        trace_id: OTel trace of its run, 32 hexadecimal digits.
        run_id: Its run; empty where the sender does not know of runs.
        span_id: The span that it rates, 16 hexadecimal digits; empty for the run.
        reward: The reward.
    """

    trace_id: str
    run_id: str
    span_id: str
    reward: Reward


def read(body: bytes, bounds: Bounds, rejected: Rejected) -> tuple[list[Verdict], bytes]:
    """Return the late rewards in a request, and a request of their log records alone.

    Measures and built-in rewards that a process tells as events are left out without a
    word: they are computed anew from the spans. Other log records are rejected.

    Args:
        body: An `ExportLogsServiceRequest` in protobuf.
        bounds: What it may hold.
        rejected: Where to say what was left out.

    Raises:
        RefusedError: If it is none.
    """
    found: list[Verdict] = []
    kept: list[bytes] = []
    kind: Any = ExportLogsServiceRequest
    request = Undecoded(body, kind.DESCRIPTOR.name, bounds.request_items)
    resources, around = request.split(0, len(body), 1)
    parsed(kind, around)
    for of_resource in resources:
        scopes, around = request.split(*of_resource, 2)
        head(ResourceLogs, around, bounds)
        for of_scope in scopes:
            records, around = request.split(*of_scope, 2)
            head(ScopeLogs, around, bounds)
            for begin, end in records:
                verdict = _verdict(body[begin:end], bounds, rejected)
                if verdict is not None:
                    found.append(verdict)
                    kept.append(field(2, body[begin:end]))
    return found, field(1, field(2, b"".join(kept))) if kept else b""


def is_evaluation(record: Any) -> bool:
    """Whether a log record is an event that tells a reward."""
    return bool(_name(record, _facts(record)) == a.EVALUATION_EVENT)


def _facts(record: Any) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in record.attributes}


def _name(record: Any, facts: dict[str, Any]) -> Any:
    return record.event_name or facts.get("event.name")


def _verdict(data: bytes, bounds: Bounds, rejected: Rejected) -> Verdict | None:
    if len(data) > bounds.span_bytes:
        rejected.add(f"a log record must have at most {bounds.span_bytes} bytes, came {len(data)}")
        return None
    record = parsed(LogRecord, data)
    facts = _facts(record)
    if _name(record, facts) != a.EVALUATION_EVENT:
        rejected.add(
            f"a log record must be an event {a.EVALUATION_EVENT}; others are not kept here"
        )
        return None
    if _is_computed_here(facts):
        return None
    if len(data) > _MOST_BYTES:
        rejected.add(f"an evaluation must have at most {_MOST_BYTES} bytes")
        return None
    fault, verdict = _read(record, facts)
    if verdict is None:
        rejected.add(fault)
    return verdict


def _is_computed_here(facts: dict[str, Any]) -> bool:
    """Whether an event tells a measure, or a built-in reward or credit, of a run.

    Rewards of users may be structural as well; these have an id of their own.
    """
    identity = facts.get(a.REWARD_ID)
    if identity is None:
        return bool(facts.get(a.REWARD_ESTIMATOR) == "structural")
    return isinstance(identity, str) and is_builtin_id(identity, str(facts.get(a.RUN_ID)))


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


def _read(record: Any, facts: dict[str, Any]) -> tuple[str, Verdict | None]:
    run_id = facts.get(a.RUN_ID) or ""
    if run_id and not _is_run_id(run_id):
        return f"{a.RUN_ID} must be <OTel trace id>-<span id of the root>", None
    trace_id = run_id[:32] if run_id else record.trace_id.hex()
    if len(trace_id) != _TRACE_ID_DIGITS or not trace_id.strip("0"):
        return f"an evaluation must carry {a.RUN_ID} or the context of what it rates", None
    span_id = "" if run_id else record.span_id.hex()
    try:
        reward = _reward(record, facts, trace_id, span_id)
    except (TypeError, ValueError):
        return f"{a.EVALUATION_VALUE} must be a number", None
    fault = reward.fault
    if fault is not None:
        return f"a reward must be sound, but its {fault}", None
    return "", Verdict(trace_id, run_id, span_id, reward)


def _is_run_id(text: Any) -> bool:
    return (
        isinstance(text, str)
        and len(text) == _RUN_ID_DIGITS
        and text[32] == "-"
        and set(text[:32] + text[33:]) <= _HEX
    )


def _reward(record: Any, facts: dict[str, Any], trace_id: str, span_id: str) -> Reward:
    component = facts.get(a.EVALUATION_NAME)
    value = float(facts.get(a.EVALUATION_VALUE, "none"))
    identity = facts.get(a.REWARD_ID)
    if not identity:
        # What a resend leaves as it is, for senders that give their events no id.
        said = f"{trace_id}:{span_id}:{component}:{value!r}:{record.time_unix_nano}"
        identity = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
    return Reward(
        id=identity,
        component=component if isinstance(component, str) else "evaluation",
        value=value,
        family=facts.get(a.REWARD_FAMILY, "R1"),
        unit=facts.get(a.REWARD_UNIT, "turn" if span_id else "team"),
        target=facts.get(a.REWARD_TARGET) or span_id or None,
        estimator=facts.get(a.REWARD_ESTIMATOR, "judge" if span_id else "outcome"),
        provisional=facts.get(a.REWARD_PROVISIONAL, False),
        n=facts.get(a.REWARD_N),
        se=facts.get(a.REWARD_SE),
        version=facts.get(a.REWARD_VERSION),
    )
