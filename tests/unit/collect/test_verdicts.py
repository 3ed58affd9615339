"""Late rewards: which run each is for, which are none, and which are the same again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from orchtrace_otel import attributes as a
from orchtrace_otel.collect.parts import UNBOUNDED, Rejected
from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.collect.verdicts import read as read_verdicts
from orchtrace_otel.model import Reward

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT = "00f067aa0ba902b7"
RUN = f"{TRACE}-{ROOT}"
OURS = {
    a.EVALUATION_NAME: "style",
    a.EVALUATION_VALUE: 0.5,
    a.RUN_ID: RUN,
    a.REWARD_ID: "v1",
    a.REWARD_FAMILY: "R2",
    a.REWARD_UNIT: "agent",
    a.REWARD_TARGET: "writer",
    a.REWARD_ESTIMATOR: "judge",
    a.REWARD_PROVISIONAL: True,
    a.REWARD_N: 3,
    a.REWARD_SE: 0.25,
    a.REWARD_VERSION: "judge-2",
}
KINDS = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}


def read(facts: dict[str, Any], **more: Any) -> tuple[list[Verdict], Rejected]:
    """Read one log record with these attributes."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    record = scope.log_records.add(**{"event_name": a.EVALUATION_EVENT, **more})
    for key, held in facts.items():
        value = record.attributes.add(key=key).value
        setattr(value, KINDS[type(held)], held)
    rejected = Rejected()
    return read_verdicts(request.SerializeToString(), UNBOUNDED, rejected)[0], rejected


def test_a_reward_of_ours_is_read_whole() -> None:
    """Every field that its event has."""
    (found,), rejected = read(OURS)
    reward = Reward(
        id="v1", component="style", value=0.5, family="R2", unit="agent", target="writer",
        estimator="judge", provisional=True, n=3, se=0.25, version="judge-2",
    )  # fmt: skip
    assert found == Verdict(TRACE, RUN, "", reward)
    assert rejected.count == 0


def test_an_evaluation_of_others_rates_the_span_of_its_context() -> None:
    """Its id follows from what a resend leaves as it is."""
    ids = {"trace_id": bytes.fromhex(TRACE), "span_id": bytes.fromhex(ROOT)}
    facts = {a.EVALUATION_NAME: "relevance", a.EVALUATION_VALUE: 0.8}
    (first,), _ = read(facts, **ids, time_unix_nano=5)
    (again,), _ = read(facts, **ids, time_unix_nano=5, observed_time_unix_nano=9)
    (other,), _ = read(facts, **ids, time_unix_nano=6)
    assert (first.trace_id, first.run_id, first.span_id) == (TRACE, "", ROOT)
    assert (first.reward.unit, first.reward.target, first.reward.estimator) == (
        "turn",
        ROOT,
        "judge",
    )
    assert first == again
    assert first.reward.id != other.reward.id


def test_the_name_of_an_event_may_be_an_attribute() -> None:
    """As older senders have it."""
    (found,), _ = read({**OURS, "event.name": a.EVALUATION_EVENT}, event_name="")
    assert found.reward.id == "v1"


def test_structural_measures_are_left_out_without_a_word() -> None:
    """They are computed anew from the spans."""
    facts = {key: OURS[key] for key in (a.EVALUATION_NAME, a.EVALUATION_VALUE, a.RUN_ID)}
    found, rejected = read({**facts, a.REWARD_ESTIMATOR: "structural"})
    assert (found, rejected.count) == ([], 0)


@pytest.mark.parametrize("estimator", ["structural", "outcome"])
def test_built_in_rewards_are_left_out_and_structural_ones_of_users_are_taken(
    estimator: str,
) -> None:
    """What we compute is told by its id, whatever it is estimated from."""
    ours = {**OURS, a.REWARD_ID: f"{RUN}:=waste", a.REWARD_ESTIMATOR: estimator}
    found, rejected = read(ours)
    assert (found, rejected.count) == ([], 0)
    (given,), _ = read({**ours, a.REWARD_ID: f"{RUN}:waste"})
    assert given.reward.estimator == estimator


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({a.RUN_ID: "run-7"}, "must be <OTel trace id>-<span id of the root>"),
        ({a.RUN_ID: f"{TRACE}-{ROOT[:-1]}G"}, "must be <OTel trace id>-<span id of the root>"),
        ({a.RUN_ID: ""}, "must carry orchtrace.run.id or the context"),
        ({a.EVALUATION_VALUE: "good"}, "must be a number"),
        ({a.EVALUATION_VALUE: float("nan")}, "must be sound, but its value must be a finite"),
        ({a.REWARD_FAMILY: "R9"}, "must be sound, but its family must be one of R1, "),
        ({a.REWARD_PROVISIONAL: "yes"}, "must be sound, but its provisional must be"),
        ({a.REWARD_N: "three"}, "must be sound, but its n must be a whole number"),
        ({a.EVALUATION_NAME: "style" * 20_000}, "must have at most 65536 bytes"),
        ({a.REWARD_UNIT: "galaxy"}, "must be sound, but its unit must be one of token, "),
    ],
)
def test_what_is_no_reward_is_rejected_and_said_so(change: dict[str, Any], said: str) -> None:
    """With what must hold."""
    found, rejected = read({**OURS, **change})
    assert (found, rejected.count) == ([], 1)
    assert said in rejected.message


VALUES = st.one_of(
    st.fixed_dictionaries({"string_value": st.text(max_size=60)}),
    st.fixed_dictionaries({"int_value": st.integers(-(2**63), 2**63 - 1)}),
    st.fixed_dictionaries({"double_value": st.floats()}),
    st.fixed_dictionaries({"bool_value": st.booleans()}),
    st.fixed_dictionaries({"bytes_value": st.binary(max_size=9)}),
    st.just({"array_value": {"values": [{"string_value": "in an array"}]}}),
    st.just({"kvlist_value": {}}),
    st.just({}),
)


@given(st.dictionaries(st.sampled_from([*OURS, "event.name"]), VALUES))
def test_a_value_of_any_kind_is_a_reward_or_rejected(change: dict[str, dict[str, Any]]) -> None:
    """One odd record costs no other; what is taken can be kept and comes back as it was."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for facts in (change, {}):
        record = records.add(event_name=a.EVALUATION_EVENT)
        for key, held in {**OURS, **facts}.items():
            if isinstance(held, dict):
                record.attributes.add(key=key, value=held)
            else:
                value = record.attributes.add(key=key).value
                setattr(value, KINDS[type(held)], held)
    rejected = Rejected()
    found, _ = read_verdicts(request.SerializeToString(), UNBOUNDED, rejected)
    assert found[-1].reward.id == "v1"
    assert len(found) + rejected.count <= 2
    for verdict in found:
        assert Reward.from_dict(orjson.loads(orjson.dumps(verdict.reward.to_dict()))) == (
            verdict.reward
        )
