"""Names that are members of an enum, as applications keep them, are what they stand for."""

import enum

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_otel import otlp
from orchtrace_otel.model import Trace
from tests.trees import recording, tree


class Name(str, enum.Enum):  # noqa: UP042 - StrEnum formats as what it holds, and this does not
    TEAM = "team"
    LEAD = "lead"
    CRITIC = "critic"
    EXECUTOR = "executor"
    SEARCH = "search"
    TASK = "q-17"
    ROUTE = "route"
    ENOUGH = "quality_met"
    STYLE = "style"
    RUBRIC = "rubric"
    ROLE = "role"
    FAMILY = "R3"
    JUDGE = "judge"


def run(name: type[str]) -> Trace:
    """A run of all decorators and verbs whose every name is a `name`."""

    @orchtrace.tool(name("search"))
    def search() -> None: ...

    @orchtrace.agent(name("critic"), role=name("executor"))
    def critic() -> str:
        orchtrace.message(name("lead"), "hm")
        return "fine"

    @orchtrace.agent(name("lead"))
    def lead() -> None:
        orchtrace.decide(
            name("route"), chosen=name("critic"), candidates=[name("critic"), name("lead")]
        )
        orchtrace.delegate(name("critic"))
        critic()
        search()
        with orchtrace.aggregate(sources=name("critic")):
            pass
        with orchtrace.aggregate(sources=[name("critic")]):
            pass
        orchtrace.record_reward(name("style"), 1.0, unit="agent", target=name("critic"))
        orchtrace.record_reward(
            name("rubric"),
            0.5,
            family=name("R3"),
            unit=name("role"),
            target=name("executor"),
            estimator=name("judge"),
        )
        orchtrace.stop(name("quality_met"))

    @orchtrace.team(name("team"), task_id=name("q-17"), tags={name("lead"): name("critic")})
    def team() -> None:
        lead()

    with recording() as captured:
        team()
    data = encode_spans(captured.spans).SerializeToString()
    (received,) = otlp.traces(otlp.read_protobuf(data))
    assert received == captured.trace
    return captured.trace


def test_a_member_of_an_enum_is_the_text_that_it_holds() -> None:
    """The trace, its rewards and its task are those of plain names, inline and from OTLP."""
    trace, plain = run(Name), run(str)
    assert tree(trace) == tree(plain)
    assert trace.task_id == "q-17"
    assert [
        (one.component, one.family, one.unit, one.target, one.estimator)
        for one in trace.reward_records
    ] == [
        (one.component, one.family, one.unit, one.target, one.estimator)
        for one in plain.reward_records
    ]
    assert trace.events[-1]["flags"] == plain.events[-1]["flags"] == []
    texts = [*trace.rewards, *(event.agent for event in trace.events)]
    assert {type(text) for text in texts} == {str}
