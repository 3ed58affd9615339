"""Providers that are global, the environment and forks, in a process of its own."""

import json
import os
from pathlib import Path

import pytest

from tests.processes import run
from tests.unit.configuration.teams import TEAM


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


@pytest.mark.parametrize(
    ("environment", "what"),
    [
        ({"OTEL_SPAN_LINK_COUNT_LIMIT": "many"}, "OTEL_SPAN_LINK_COUNT_LIMIT"),
        # less than a batch, which has 512 unless said
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_MAX_QUEUE_SIZE": "100"}, "max_queue_size"),
        ({"OTEL_LOGS_EXPORTER": "console", "OTEL_BLRP_MAX_QUEUE_SIZE": "100"}, "max_queue_size"),
    ],
)
def test_what_the_sdk_refuses_of_its_environment_is_an_error_of_ours(
    environment: dict[str, str], what: str
) -> None:
    """As for any other wrong variable; it says what, and no provider is set."""
    code = """
try:
    orchtrace.configure(exporters=[])
except orchtrace.ConfigError as error:
    print(error, type(trace.get_tracer_provider()).__name__)
"""
    said = run(TEAM + code, **environment)
    assert what in said
    assert said.endswith("ProxyTracerProvider\n")


def test_a_refusal_captures_no_content_and_leaves_no_thread(tmp_path: Path) -> None:
    """A host that goes on without us, or tries again, has nothing of what it asked for."""
    code = """
import os, threading
from orchtrace_otel import content
wanted = {"mode": "EVENT_ONLY", "store": os.environ["STORE"]}
for _ in range(2):
    try:
        orchtrace.configure(exporters=[], content=wanted)
    except orchtrace.ConfigError:
        print(content.active(), threading.active_count())
"""
    environment = {"OTEL_SPAN_LINK_COUNT_LIMIT": "many", "OTEL_LOGS_EXPORTER": "console"}
    assert run(TEAM + code, STORE=str(tmp_path), **environment) == "None 1\nNone 1\n"


LATE = """
import json, logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
orchtrace.configure(exporters=[])
orchtrace.record_reward("correct", 1.0, run_id="0" * 31 + "1-" + "0" * 15 + "2")
print(orchtrace.flush(10), dict(orchtrace.losses()))
orchtrace.shutdown()
orchtrace.shutdown()
"""


def test_a_late_reward_goes_to_the_exporter_of_log_events_that_the_environment_names() -> None:
    """As one event in the run's own context, delivered by a flush; no global provider is set."""
    code = "from opentelemetry._logs import get_logger_provider\n"
    code += LATE + "print(type(get_logger_provider()).__name__)\n"
    told = run(TEAM + code, OTEL_LOGS_EXPORTER="console")
    event, end = json.JSONDecoder().raw_decode(told)
    assert event["attributes"]["gen_ai.evaluation.name"] == "correct"
    assert (event["trace_id"], event["span_id"]) == ("0x" + "0" * 31 + "1", "0x" + "0" * 15 + "2")
    assert told[end:].split() == ["True", "{}", "ProxyLoggerProvider"]


def test_a_late_reward_that_nobody_hears_is_told() -> None:
    """It was lost without a word where spans go to a collector, and nothing else goes anywhere."""
    assert run(TEAM + LATE).splitlines()[:2] == [
        "orchtrace lost data (rewards_unheard, a reward for a run that is over needs exporters of "
        "traces, a logger_provider, or OTEL_LOGS_EXPORTER=otlp, got none); further losses of this "
        "kind are counted, and told at shutdown",
        "True {'rewards_unheard': 1}",
    ]


def test_log_events_that_do_not_arrive_are_counted_and_a_flush_says_so() -> None:
    """The official exporters tell it in the log, and give up; nobody listens here."""
    told = run(
        TEAM + LATE,
        OTEL_LOGS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert "False {'evaluations_undelivered': 1}\n" in told
    assert (
        "orchtrace lost data in this process, beyond the runs: evaluations_undelivered: 1" in told
    )


REDIRECTS = """
import http.server, os, threading
class Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(302)
        self.send_header("Location", "/login")
        self.end_headers()
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
"""


def test_log_events_that_are_redirected_are_counted_as_lost() -> None:
    """As spans are: the official exporters take it for success, and the verdict is nowhere."""
    told = run(TEAM + REDIRECTS + LATE, OTEL_LOGS_EXPORTER="otlp", OTEL_TRACES_EXPORTER="none")
    assert "False {'evaluations_undelivered': 1}\n" in told


def test_log_events_are_counted_where_their_exporter_raises() -> None:
    """Release 1.40 does where its last attempt comes too late; the SDK says so, and goes on."""
    code = """
from types import SimpleNamespace
from orchtrace_otel import provider
class Raising:
    def export(self, batch):
        raise ValueError("too late")
    def shutdown(self):
        pass
entry = SimpleNamespace(name="mine", load=lambda: Raising)
provider.installed = lambda signal: {"mine": entry}
"""
    told = run(TEAM + code + LATE, OTEL_LOGS_EXPORTER="mine")
    assert "False {'evaluations_undelivered': 1}\n" in told


def test_an_exporter_of_log_events_that_is_not_installed_is_left_out() -> None:
    """As one of spans is."""
    assert "OTEL_LOGS_EXPORTER must name exporters of log events that are installed" in run(
        TEAM + LATE, OTEL_LOGS_EXPORTER="zipkin"
    )


@pytest.mark.parametrize("variable", ["OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER"])
def test_an_exporter_that_does_not_open_is_an_error_of_ours(variable: str) -> None:
    """It names the variable and the class of the error; no provider is set."""
    code = """
from importlib.metadata import EntryPoint
from orchtrace_otel import provider
entry = EntryPoint("mine", "decimal:Decimal.from_float", "a group")
provider.installed = lambda signal: {"mine": entry}
try:
    orchtrace.configure(exporters=[])
except orchtrace.ConfigError as error:
    print(error, type(trace.get_tracer_provider()).__name__)
"""
    assert run(TEAM + code, **{variable: "mine"}) == (
        f"{variable} must name exporters that open, got 'mine' (TypeError); "
        "`orchtrace doctor` says more, or leave it out ProxyTracerProvider\n"
    )


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
def test_a_child_waits_for_no_thread_that_its_parent_alone_has() -> None:
    """A fork while another thread configures, instruments or shuts down leaves nothing locked."""
    assert (
        run(
            FORK
            + """
import threading
from orchtrace_otel import adapter, configuration
held, done = threading.Event(), threading.Event()
def hold():
    with configuration._lock, adapter._lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
configuration._lost["content_cut"] = 1
def work():
    orchtrace.configure(exporters=[])
    orchtrace.instrument().uninstrument()
    print("child", team() is not None, dict(orchtrace.losses()))
    orchtrace.shutdown()
child(work)
done.set()
thread.join()
print("parent", dict(orchtrace.losses()))
configuration._lost.clear()
"""
        )
        == "child True {}\nparent {'content_cut': 1}\n"
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


FORKED_LIVES = """
import os
import orchtrace_otel as orchtrace
from opentelemetry import propagate, trace
from orchtrace_otel.testing import capture

@orchtrace.agent
def worker(): pass

def lives():
    worker()
    print(captured.spans[-1].attributes["orchtrace.agent.instance_id"], flush=True)

def fork():
    worker()
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            lives()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0  # one after the other: their lines must not mix
    lives()

@orchtrace.team
def office():
    return orchtrace.inject()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "place",
    [
        "orchtrace.team(fork)()",
        "with orchtrace.extract(office()): fork()",
        "with trace.get_tracer('server').start_as_current_span("
        "'GET /', propagate.extract(office())): fork()",
    ],
)
def test_forked_children_have_agents_of_their_own(place: str) -> None:
    """A copy of an agent is another life of it, in the parent's run and in a caller's."""
    said = run(FORKED_LIVES + f"with capture() as captured:\n    {place}\n").splitlines()
    assert len(said) == 3
    assert {life.partition("#")[0] for life in said} == {"worker"}
    assert len(set(said)) == 3


LEFT_BY = """
import os, sys
import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

@orchtrace.agent
def helper(): ...

@orchtrace.tool
def outer(): inner()

@orchtrace.tool
def inner():
    global child
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    helper()
    {way}

lead = orchtrace.agent(outer, name="lead")
with capture() as captured:
    try:
        orchtrace.team(lead, name="crew")()
    except BaseException:
        pass
    said = sorted(span.name for span in captured.spans)
    print("parent" if child else "child", *said)
    sys.stdout.flush()
    if not child:
        os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("way", ["sys.exit(1)", "raise ValueError", "return"])
def test_what_is_open_around_a_fork_is_the_parents_to_end(way: str) -> None:
    """The child comes out of the same calls, and must not tell how they ended, and when."""
    child, parent = (line.split(" ", 1) for line in run(LEFT_BY.replace("{way}", way)).splitlines())
    assert child == ["child", "invoke_agent helper"]
    told = "execute_tool inner execute_tool outer invoke_agent lead invoke_workflow crew stop"
    assert parent == ["parent", told]


def test_a_flush_returns_in_time_whatever_the_processors_of_spans_do() -> None:
    """Those of the SDK wait for their exporters, however long these take."""
    said = run(
        TEAM
        + """
import threading, time
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

class Hangs(SpanProcessor):
    def force_flush(self, timeout_millis=0):
        threading.Event().wait(60)
        return True

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(Hangs())
orchtrace.configure(tracer_provider=provider, exporters=[])
began = time.monotonic()
print(orchtrace.flush(0.2), time.monotonic() - began < 20)
"""
    )
    assert said == "False True\n"
