"""`configure`, `flush`, `shutdown`: what they take, refuse, and leave alone."""

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import configuration, spans
from orchtrace_otel.model import Trace
from tests.keeping import Kept
from tests.processes import run


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a process that is not configured and whose environment says nothing."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "ORCHTRACE_")):
            monkeypatch.delenv(name)
    yield
    orchtrace.shutdown()
    assert not spans.is_configured()


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield provider
    provider.shutdown()


@orchtrace.team
def team() -> int:
    return 3


def test_a_given_provider_is_used_and_no_global_one_is_set(provider: TracerProvider) -> None:
    """Traces go to the exporters, spans through the provider."""
    kept = Kept()
    before = otel_trace.get_tracer_provider()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    assert team() == 3
    assert orchtrace.flush()
    assert [trace.events[-1].verb for trace in kept.traces] == ["stop"]
    assert otel_trace.get_tracer_provider() is before


def test_configuring_again_is_configuring_once(provider: TracerProvider) -> None:
    """The last call counts: one pipeline, one trace a run, and what was replaced is shut down."""
    first, second = Kept(), Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    team()
    orchtrace.configure(tracer_provider=provider, exporters=[second])
    team()
    orchtrace.flush()
    assert (len(first.traces), len(second.traces)) == (1, 1)
    assert (first.shutdowns, second.shutdowns) == (1, 0)


def test_configuring_another_provider_lets_go_of_the_first(provider: TracerProvider) -> None:
    """What was finished is delivered, and the first one's exporters are shut down."""
    other = TracerProvider(shutdown_on_exit=False)
    first, second = Kept(), Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    team()
    orchtrace.configure(tracer_provider=other, exporters=[second])
    team()
    orchtrace.flush()
    assert (len(first.traces), first.shutdowns) == (1, 1)
    assert (len(second.traces), second.shutdowns) == (1, 0)
    other.shutdown()


def test_shutdown_delivers_and_stops_following(provider: TracerProvider) -> None:
    """Twice is once; afterwards functions are called as they are; it can be configured anew."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    team()
    orchtrace.shutdown()
    orchtrace.shutdown()
    assert (len(kept.traces), kept.shutdowns) == (1, 1)
    assert team() == 3
    assert len(kept.traces) == 1
    again = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[again])
    team()
    orchtrace.flush()
    assert (len(kept.traces), len(again.traces)) == (1, 1)


def test_an_exporter_of_spans_is_put_under_the_provider_once(provider: TracerProvider) -> None:
    """Configured twice, nothing is sent twice; another of its class is another destination."""
    first, second = InMemorySpanExporter(), InMemorySpanExporter()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    orchtrace.configure(tracer_provider=provider, exporters=[first, second])
    team()
    orchtrace.flush()
    assert [len(memory.get_finished_spans()) for memory in (first, second)] == [2, 2]


@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
@pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is None,
    reason="the official OTLP exporter is an extra",
)
def test_no_second_otlp_exporter_is_added(
    processor: Callable[[Any], Any], provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that ships spans by OTLP already goes on as it does."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    class Quiet(OTLPSpanExporter):
        def export(self, spans: Any) -> Any: ...

    provider.add_span_processor(processor(Quiet(endpoint="http://localhost:1")))
    before = len(configuration._span_exporters(provider))
    orchtrace.configure(tracer_provider=provider, exporters=["otlp:http://localhost:1"])
    assert len(configuration._span_exporters(provider)) == before == 1


def test_reward_functions_score_each_run(provider: TracerProvider) -> None:
    """Given as a list or as a mapping of names."""
    kept = Kept()

    def events(trace: Trace) -> dict[str, float]:
        return {"events": float(len(trace.events))}

    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards=[events])
    team()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards={"mine": events})
    team()
    orchtrace.flush()
    assert [sorted((trace.metrics or {}) | trace.rewards) for trace in kept.traces]
    assert all("events" in {**(trace.metrics or {}), **trace.rewards} for trace in kept.traces)


def test_reward_functions_of_other_packages_are_found_by_name(
    provider: TracerProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package names them under `orchtrace.reward`; what they declare holds."""
    (tmp_path / "their_rewards.py").write_text(
        "import orchtrace_otel as orchtrace\n"
        "@orchtrace.reward(family='R7', unit='orchestrator', range=(0, 1))\n"
        "def calm(trace):\n"
        "    return 0.5\n"
    )
    about = tmp_path / "their_rewards-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rewards\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[orchtrace.reward]\ncalmness = their_rewards:calm\n")
    monkeypatch.syspath_prepend(tmp_path)
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards=["calmness"])
    team()
    orchtrace.flush()
    records = [r for r in kept.traces[0].reward_records if r.component == "calmness"]
    assert [(r.value, r.family, r.unit) for r in records] == [(0.5, "R7", "orchestrator")]


def test_a_late_reward_reaches_the_exporters(provider: TracerProvider) -> None:
    """By the run's id, after the run."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    team()
    orchtrace.flush()
    orchtrace.record_reward("correctness", 1.0, run_id=kept.traces[0].trace_id)
    orchtrace.flush()
    assert [(run_id, reward.value) for run_id, reward in kept.rewards] == [
        (kept.traces[0].trace_id, 1.0)
    ]


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


def test_an_exporter_that_fails_is_counted_and_costs_nothing_else(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """The other exporter gets the trace, and nobody is raised at."""

    class Broken(Kept):
        def export(self, trace: Trace) -> None:
            raise OSError("the canary")

    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[Broken(), kept])
    team()
    orchtrace.flush()
    assert len(kept.traces) == 1
    assert orchtrace.losses() == {"export_failed:Broken": 1}
    assert "canary" not in caplog.text
    orchtrace.shutdown()
    assert orchtrace.losses() == {"export_failed:Broken": 1}


def test_an_exporter_that_is_named_twice_gets_each_trace_once(
    provider: TracerProvider, tmp_path: Path
) -> None:
    """By its name and target, or as an object."""
    kept = Kept()
    target = f"jsonl:{tmp_path}"
    orchtrace.configure(tracer_provider=provider, exporters=[kept, target, kept, target])
    team()
    orchtrace.shutdown()
    assert len(kept.traces) == 1
    assert (tmp_path / "traces.jsonl").read_text().count("\n") == 1


def test_what_was_lost_beside_the_runs_is_told_at_shutdown(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """What an exporter lost on a thread of its own, with its number, once."""

    class Lossy(Kept):
        dropped: ClassVar = {"unsent": 7}

    orchtrace.configure(tracer_provider=provider, exporters=[Lossy()])
    orchtrace.shutdown()
    orchtrace.shutdown()
    assert caplog.messages == ["orchtrace lost data in this process, beyond the runs: unsent: 7"]


def test_spans_that_no_collector_took_are_counted(provider: TracerProvider) -> None:
    """By the exporters that know how many."""

    class Down(InMemorySpanExporter):
        lost = 3

    orchtrace.configure(tracer_provider=provider, exporters=[Down()])
    assert orchtrace.losses() == {"spans_undelivered": 3}


def test_flush_waits_no_longer_than_it_was_told_to(provider: TracerProvider) -> None:
    """Once in all, though the provider has our processor too; False says that time ran out."""
    gate = threading.Event()

    class Slow(Kept):
        def export(self, trace: Trace) -> None:
            gate.wait()

    orchtrace.configure(tracer_provider=provider, exporters=[Slow()])
    team()
    before = time.monotonic()
    assert not orchtrace.flush(0.5)
    assert 0.5 <= time.monotonic() - before < 1
    gate.set()


def test_a_disabled_sdk_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, no key: a machine on which tracing is off may have neither."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("ORCHTRACE_STORE", str(tmp_path / "store"))
    orchtrace.configure(exporters=[f"jsonl:{tmp_path}/traces"])
    assert list(tmp_path.iterdir()) == []


def test_a_class_is_no_exporter_and_a_number_no_name(provider: TracerProvider) -> None:
    """Both look right and would fail at the first trace."""
    with pytest.raises(orchtrace.ConfigError, match=r"must be 'name:target'.*got <class"):
        orchtrace.configure(tracer_provider=provider, exporters=[Kept])  # type: ignore[list-item]
    with pytest.raises(orchtrace.ConfigError, match="must have texts as names, got 3"):
        orchtrace.configure(tracer_provider=provider, rewards={3: lambda _: 1.0})  # type: ignore[dict-item]


# -- in a process of its own ---------------------------------------------------------------

TEAM = """
import orchtrace_otel as orchtrace
from opentelemetry import trace

@orchtrace.team
def team():
    run = orchtrace.current_run()
    return None if run is None else run.id
"""


def test_bare_decorators_set_no_provider_and_record_nothing() -> None:
    """They are called as they are, and a host may still set its own provider."""
    assert (
        run(
            TEAM
            + """
print(team(), type(trace.get_tracer_provider()).__name__)
"""
        )
        == "None ProxyTracerProvider\n"
    )


def test_a_provider_that_the_host_sets_later_is_honoured() -> None:
    """Spans go through it from then on, with no call of ours."""
    assert (
        run(
            TEAM
            + """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
print(team())
memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
print(team() is not None, [span.name for span in memory.get_finished_spans()])
"""
        )
        == "None\nTrue ['stop', 'invoke_workflow team']\n"
    )


def test_configure_makes_and_sets_a_provider_where_there_is_none() -> None:
    """And shuts it down again; without an OTEL variable no exporter of spans is added."""
    assert (
        run(
            TEAM
            + """
orchtrace.configure(exporters=[])
from orchtrace_otel import configuration
provider = trace.get_tracer_provider()
print(type(provider).__module__, configuration._span_exporters(provider))
print(team() is not None)
orchtrace.configure(exporters=[])
print(trace.get_tracer_provider() is provider)
orchtrace.shutdown()
print(team())
orchtrace.configure(exporters=[])
print(trace.get_tracer_provider() is provider, team() is not None)
"""
        )
        == "opentelemetry.sdk.trace []\nTrue\nTrue\nNone\nTrue True\n"
    )


EXPORTERS = """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
orchtrace.configure(exporters=[])
from orchtrace_otel import configuration
exporters = configuration._span_exporters(trace.get_tracer_provider())
print([" ".join(kind.__module__ for kind in type(one).__mro__) for one in exporters])
orchtrace.shutdown()
"""
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "console"}, "opentelemetry.sdk.trace.export"),
        ({"OTEL_TRACES_EXPORTER": "none"}, "[]"),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER must name exporters of spans that are installed (console, ",
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp_proto_grpc"}, "opentelemetry.exporter.otlp.proto.grpc"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", ENDPOINT: "http://127.0.0.1:1"},
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, got 'http/json'; ",
        ),
        (
            {ENDPOINT: "127.0.0.1:1"},
            "OTEL_EXPORTER_OTLP_ENDPOINT must begin with http:// or https://, got one that does",
        ),
    ],
    ids=str,
)
def test_what_otel_variables_ask_of_a_provider_made_here_is_done_or_said(
    environment: dict[str, str], said: str
) -> None:
    """Nothing that somebody asked for is left out in silence."""
    assert said in run(TEAM + EXPORTERS, **environment)


def test_what_the_sdk_refuses_of_its_environment_is_an_error_of_ours() -> None:
    """As for any other wrong variable; it names it, and no provider is set."""
    code = """
try:
    orchtrace.configure(exporters=[])
except orchtrace.ConfigError as error:
    print(error, type(trace.get_tracer_provider()).__name__)
"""
    said = run(TEAM + code, OTEL_SPAN_LINK_COUNT_LIMIT="many")
    assert "OTEL_SPAN_LINK_COUNT_LIMIT" in said
    assert said.endswith("ProxyTracerProvider\n")


def test_an_exporter_of_spans_that_does_not_open_is_an_error_of_ours() -> None:
    """It names the variable and the class of the error; no provider is set."""
    code = """
from importlib.metadata import EntryPoint
from orchtrace_otel import provider
entry = EntryPoint("mine", "decimal:Decimal.from_float", provider.GROUP)
provider.span_exporters = lambda: {"mine": entry}
try:
    orchtrace.configure(exporters=[])
except orchtrace.ConfigError as error:
    print(error, type(trace.get_tracer_provider()).__name__)
"""
    assert run(TEAM + code, OTEL_TRACES_EXPORTER="mine") == (
        "OTEL_TRACES_EXPORTER must name exporters that open, got 'mine' (TypeError); "
        "`orchtrace doctor` says more, or leave it out ProxyTracerProvider\n"
    )


@pytest.mark.parametrize("given", [None, "5", float("nan"), float("inf"), [5]], ids=str)
def test_a_time_that_is_none_is_refused(given: Any) -> None:
    """Whether anything is configured or not: who flushes at the end is to see it at the start."""
    with pytest.raises(orchtrace.ConfigError, match=r"flush\(\) needs a finite number of seconds"):
        orchtrace.flush(given)


def test_the_disabled_sdk_is_honoured() -> None:
    """No span, no provider, no exporter, whatever is configured; arguments are still checked."""
    assert (
        run(
            TEAM
            + """
orchtrace.configure(exporters=[])
print(team(), type(trace.get_tracer_provider()).__name__)
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
print(team())
try:
    orchtrace.configure(exporters="x")
except orchtrace.ConfigError as error:
    print(error)
orchtrace.flush(), orchtrace.shutdown()
""",
            OTEL_SDK_DISABLED="true",
        )
        == "None ProxyTracerProvider\nNone\n"
        "exporters must be a list, got 'x'; write exporters=[...]\n"
    )


def test_a_host_may_set_its_provider_after_configure_was_given_one() -> None:
    """What was configured counts, and the host's own provider is untouched."""
    assert (
        run(
            TEAM
            + """
from opentelemetry.sdk.trace import TracerProvider
mine, theirs = TracerProvider(), TracerProvider()
orchtrace.configure(tracer_provider=mine, exporters=[])
trace.set_tracer_provider(theirs)
print(team() is not None, trace.get_tracer_provider() is theirs)
print(theirs._active_span_processor._span_processors)
"""
        )
        == "True True\n()\n"
    )


FORK = (
    TEAM
    + """
import os, sys, time
class Kept:
    traces = []
    def export(self, trace): self.traces.append(trace.trace_id)
    def amend(self, run_id, reward): pass
    def flush(self, timeout_s): pass
    def shutdown(self): pass
kept = Kept()
orchtrace.configure(exporters=[kept])
def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_delivers_its_own_runs_and_none_of_the_parents() -> None:
    """What the parent had queued is the parent's to deliver."""
    assert (
        run(
            FORK
            + """
team()
def work():
    kept.traces.clear()
    own = team()
    print("child", orchtrace.flush(5), kept.traces == [own])
child(work)
print("parent", orchtrace.flush(5), len(kept.traces))
"""
        )
        == "child True True\nparent True 1\n"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_run_that_is_open_at_a_fork_is_finished_by_the_parent_alone() -> None:
    """A child in the middle of the run hangs nowhere and duplicates nothing."""
    assert (
        run(
            FORK
            + """
@orchtrace.agent
def inner(): return 1

@orchtrace.team
def outer():
    pid = os.fork()
    inner()
    return pid

sys.stdout.flush()
pid = outer()
if pid == 0:
    done = orchtrace.flush(5)
    orchtrace.shutdown()
    print("child", done, len(kept.traces))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
print("parent", orchtrace.flush(5), len(kept.traces))
"""
        )
        == "child True 0\nparent True 1\n"
    )


def test_a_later_call_keeps_what_it_does_not_name(provider: TracerProvider) -> None:
    """A bare `configure()`, say by a library, takes nothing from what the host set up."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards={"calm": lambda _: 1})
    orchtrace.configure(tracer_provider=provider)
    team()
    assert orchtrace.flush()
    assert [trace.rewards["calm"] for trace in kept.traces] == [1.0]
    orchtrace.configure(tracer_provider=provider, exporters=[])
    team()
    assert orchtrace.flush()
    assert len(kept.traces) == 1
