"""A wrong argument or variable is refused at once, and changes nothing."""

from typing import Any

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import configuration, spans
from orchtrace_otel.model import Trace
from tests.keeping import Kept
from tests.unit.configuration.teams import team


class Halfway:
    """An exporter that lacks a method."""

    def export(self, trace: Trace) -> None: ...


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "exporters is a text": ({"exporters": "jsonl:x"}, r"exporters must be a list, got 'jsonl:x'"),
    "exporters is no list": ({"exporters": 3}, "exporters must be a list, got 3"),
    "an unknown exporter": (
        {"exporters": ["nope:x"]},
        r"'name:target' with one of the names.*'nope:x'",
    ),
    "an exporter without a name": ({"exporters": [""]}, "'name:target' with one of the names.*''"),
    "a number as an exporter": ({"exporters": [3]}, r"an exporter must be 'name:target'.*got 3"),
    "an exporter without methods": (
        {"exporters": [Halfway()]},
        "export, amend, flush and shutdown",
    ),
    "rewards is a function": (
        {"rewards": len},
        "rewards must be a list, got <built-in function len>",
    ),
    "a reward that cannot be called": ({"rewards": [3]}, "must be callable with a trace, got 3"),
    "a named reward that cannot": ({"rewards": {"x": 3}}, "reward 'x' must be callable"),
    "a reward of two arguments": (
        {"rewards": {"x": lambda trace, other: 1}},
        r"reward 'x' must be callable with a trace, got .*, which takes \(trace, other\)",
    ),
    "a reward nobody knows": (
        {"rewards": ["nope"]},
        r"names of installed reward functions.*'nope'",
    ),
    "no content mode": ({"content": "ALL"}, r"content must be .*got 'ALL'"),
    "a provider of another make": (
        {"tracer_provider": otel_trace.NoOpTracerProvider()},
        "NoOpTracer",
    ),
    "no provider at all": (
        {"tracer_provider": 3},
        "TracerProvider of opentelemetry-sdk.*builtins.int",
    ),
    "no logger provider": ({"logger_provider": 3}, "logger_provider must be one of Open.*got 3"),
    "a class of providers": (
        {"tracer_provider": TracerProvider},
        "got <class .*TracerProvider'>",
    ),
    "a class of logger providers": (
        {"logger_provider": LoggerProvider},
        "logger_provider must be one of Open.*got <class",
    ),
    "a class of meter providers": (
        {"meter_provider": MeterProvider},
        "meter_provider must be one of Open.*got <class",
    ),
    "two rewards of one name": (
        {"rewards": [lambda _: 1, lambda _: 2]},
        "a name each, got '<lambda>' twice",
    ),
    "a reward of no name": ({"rewards": {"": len}}, "must have texts as names, got ''"),
    "no meter provider": ({"meter_provider": 3}, "meter_provider must be one of Open.*got 3"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_and_changes_nothing(
    arguments: dict[str, Any], says: str, provider: TracerProvider
) -> None:
    """A ConfigError that says what must hold and what came; what was configured still holds."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    with pytest.raises(orchtrace.ConfigError, match=says):
        orchtrace.configure(**{"tracer_provider": provider, **arguments})
    team()
    orchtrace.flush()
    assert (len(kept.traces), kept.shutdowns) == (1, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"exporters": ["kept:x", "nope:x"]},
        {"exporters": ["kept:x", Halfway()]},
        {"exporters": ["kept:x"], "content": {"mode": "EVENT_ONLY", "store": "nowhere://x"}},
    ],
)
def test_what_was_opened_before_a_refusal_is_let_go_of(
    arguments: dict[str, Any], provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that tries again holds nothing twice; exporters of its own stay as they are."""
    made, own = Kept(), Kept()
    real = configuration.open_exporter
    monkeypatch.setattr(
        configuration, "open_exporter", lambda name: made if name == "kept:x" else real(name)
    )
    arguments["exporters"].insert(0, own)
    with pytest.raises(orchtrace.ConfigError):
        orchtrace.configure(tracer_provider=provider, **arguments)
    assert (made.shutdowns, own.shutdowns) == (1, 0)


def test_what_the_sdk_refuses_of_an_exporter_of_spans_changes_nothing(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is made when everything else is there already, which is let go of."""
    made = Kept()
    monkeypatch.setattr(configuration, "open_exporter", lambda _: made)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    with pytest.raises(orchtrace.ConfigError, match="max_queue_size"):
        orchtrace.configure(tracer_provider=provider, exporters=["kept:x", InMemorySpanExporter()])
    assert (made.shutdowns, spans.is_configured()) == (1, False)


def test_a_wrong_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, provider: TracerProvider
) -> None:
    """The error names it."""
    monkeypatch.setenv("ORCHTRACE_MAX_OPEN_RUNS", "many")
    with pytest.raises(orchtrace.ConfigError, match=r"ORCHTRACE_MAX_OPEN_RUNS .* got 'many'"):
        orchtrace.configure(tracer_provider=provider)


def test_an_adapter_that_nobody_has_is_refused() -> None:
    """By its name, with the names there are."""
    with pytest.raises(orchtrace.ConfigError, match=r"needs names of adapters.*got 'nope'"):
        orchtrace.instrument("nope")
    with pytest.raises(orchtrace.ConfigError, match="such as 'langgraph', got 3"):
        orchtrace.instrument(3)  # type: ignore[arg-type]


def test_a_class_is_no_exporter_and_a_number_no_name(provider: TracerProvider) -> None:
    """Both look right and would fail at the first trace."""
    with pytest.raises(orchtrace.ConfigError, match=r"must be 'name:target'.*got <class"):
        orchtrace.configure(tracer_provider=provider, exporters=[Kept])  # type: ignore[list-item]
    with pytest.raises(orchtrace.ConfigError, match="must have texts as names, got 3"):
        orchtrace.configure(tracer_provider=provider, rewards={3: lambda _: 1.0})  # type: ignore[dict-item]


@pytest.mark.parametrize("given", [None, "5", float("nan"), float("inf"), [5]], ids=str)
def test_a_time_that_is_none_is_refused(given: Any) -> None:
    """Whether anything is configured or not: who flushes at the end is to see it at the start."""
    with pytest.raises(orchtrace.ConfigError, match=r"flush\(\) needs a finite number of seconds"):
        orchtrace.flush(given)
