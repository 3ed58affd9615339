"""`capture` records everything, `strict` fails on what tracing must never do."""

import asyncio
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, spans
from orchtrace_otel.testing import Captured, StrictError, capture, strict, watch


@orchtrace.agent("critic")
def review(text: str) -> int:
    return len(text)


@orchtrace.team("research")
def answer(question: str) -> int:
    return review(question) + review(question)


@_guard.guarded
def fails() -> None:
    raise LookupError


# --- capture ------------------------------------------------------------------------------


def test_all_inside_is_recorded_and_nothing_outside() -> None:
    """Spans, traces and counts are those of the block alone."""
    review("before")
    with capture() as captured:
        assert answer("four") == 8
    review("after")
    assert [span.name.split()[0] for span in captured.spans] == [
        "invoke_agent",
        "invoke_agent",
        "stop",
        "invoke_workflow",
    ]
    assert (captured.started, captured.ended, captured.open) == (4, 4, {})
    assert captured.trace.system == "python"


def test_ids_and_times_are_the_same_each_time_on_request() -> None:
    """Two deterministic runs give equal documents."""
    documents = []
    for _ in range(2):
        with capture(deterministic=True) as captured:
            answer("four")
        documents.append(captured.trace.to_json())
    assert documents[0] == documents[1]
    assert documents[0].startswith(
        '{"trace_id":"00000000000000000000000000000001-0000000000000001"'
    )


def test_spans_of_the_host_come_along() -> None:
    """A span from the global provider is recorded, below the agent that started it."""

    @orchtrace.agent("caller")
    def call() -> None:
        with trace.get_tracer("host").start_as_current_span("GET"):
            pass

    with capture() as captured:
        call()
    named = {span.name: span for span in captured.spans}
    assert named["GET"].parent == named["invoke_agent caller"].context


def test_causes_reach_threads() -> None:
    """What a pool or a thread does belongs to the run that asked for it."""

    @orchtrace.team("pool")
    def work() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(review, ["a", "bb"]))
        thread = threading.Thread(target=review, args=("ccc",))
        thread.start()
        thread.join()

    with strict() as captured:
        work()
    opened = [e for e in captured.trace.events if e.get("to") == "critic" and "parent" in e.keys]
    assert [event["parent"] for event in opened] == [captured.trace.events[0]["activation"]] * 3


def test_late_rewards_are_recorded() -> None:
    """A reward for a run that is over is kept with the run's id."""
    with capture() as captured:
        answer("four")
        orchtrace.record_reward("correctness", 1.0, run_id=captured.trace.trace_id)
    assert [(run, r.component, r.value) for run, r in captured.rewards] == [
        (captured.trace.trace_id, "correctness", 1.0)
    ]


def test_captures_nest() -> None:
    """An inner block takes what happens in it; the outer one goes on after it."""
    with capture() as outer:
        review("outer")
        with capture() as inner:
            review("inner")
        review("outer again")
    assert (len(outer.traces), len(inner.traces)) == (2, 1)


def test_what_was_configured_is_back_afterwards() -> None:
    """The provider and the tracing of before are there again, also after an error."""
    before = spans.use(None)
    spans.use(before)
    provider = trace.get_tracer_provider()
    with pytest.raises(LookupError), capture():
        raise LookupError
    assert spans.use(before) is before
    assert trace.get_tracer_provider() is provider


def test_the_only_trace_is_asked_for_in_vain() -> None:
    """`.trace` fails where there is none, or more than one."""
    with capture() as captured:
        pass
    with pytest.raises(AssertionError, match="expected one trace, got 0"):
        captured.trace  # noqa: B018 - the property raises


# --- strict -------------------------------------------------------------------------------


def test_what_goes_well_passes() -> None:
    """Sync, async and failing code that is traced as it must be brings no problem up."""

    @orchtrace.agent("waiter")
    async def wait() -> None:
        await asyncio.sleep(0)

    @orchtrace.agent("broken")
    def break_off() -> None:
        raise LookupError

    with strict() as captured:
        answer("four")
        asyncio.run(wait())
        with pytest.raises(LookupError):
            break_off()
    assert len(captured.traces) == 3


def test_an_open_span_fails() -> None:
    """A span that has not ended is named."""
    told = "every span must end, came an open 'invoke_workflow x'"
    with pytest.raises(StrictError, match=told), strict():
        spans.start_run("x")


def test_a_span_that_ends_twice_fails() -> None:
    """A second end that reaches the processors is named."""

    def end_again(captured: Captured) -> None:
        review("x")
        captured.on_end(captured.spans[0])

    told = "came a second end of 'invoke_agent critic'"
    with pytest.raises(StrictError, match=told), strict() as captured:
        end_again(captured)


def test_a_run_without_a_trace_fails() -> None:
    """A root that ended behind the run's back gave no trace."""

    def end_root() -> None:
        run = spans.start_run("x")
        assert run is not None
        run.root.span.end()

    with pytest.raises(StrictError, match="every run must become a trace"), strict():
        end_root()


def test_a_context_that_leaks_fails() -> None:
    """A key that is in the OTel context afterwards is named, whoever left it there."""
    before = otel_context.get_current()
    told = r"came other values of \['baggage'\]"
    with pytest.raises(StrictError, match=told), strict():
        otel_context.attach(otel_context.set_value("baggage", 1))
    otel_context.attach(before)


@pytest.mark.swallows_errors
def test_what_the_guard_swallows_fails() -> None:
    """An error behind the guard is named with its site, each time and not only once."""
    for _ in range(2):
        told = r"came 1 errors in .*test_recorder\.fails"
        with pytest.raises(StrictError, match=told), strict():
            fails()


@pytest.mark.swallows_errors
@pytest.mark.parametrize("swallows", [True, [f"{__name__}.fails"], f"{__name__}.fails"])
def test_what_the_guard_is_to_swallow_passes(swallows: object) -> None:
    """A test may say that the guard swallows, anywhere or at named sites."""
    with strict(swallows=swallows):
        fails()


@pytest.mark.swallows_errors
def test_an_error_that_does_not_come_fails() -> None:
    """A site that was to fail and did not is told, and one that was not named still fails."""
    with pytest.raises(StrictError) as told, strict(swallows=["elsewhere"]):
        fails()
    assert "came 1 errors in" in str(told.value)
    assert "in elsewhere, but nothing failed there" in str(told.value)


@pytest.mark.parametrize("name", ["orchtrace_otel", "opentelemetry.sdk.trace"])
def test_a_warning_fails(name: str) -> None:
    """A log record above INFO of ours or of OpenTelemetry is told; INFO is not."""
    with strict():
        logging.getLogger(name).info("calm")
    with pytest.raises(StrictError, match=f"came WARNING of {name}: alarm"), strict():
        logging.getLogger(name).warning("alarm")


def test_a_warning_may_be_allowed() -> None:
    """A test may say which kinds of problem it brings about."""
    with strict(allow=["log"]):
        logging.getLogger("orchtrace_otel").warning("alarm")


def test_all_problems_are_told_at_once() -> None:
    """One failure lists everything that did not hold."""

    def misbehave() -> None:
        spans.start_run("x")
        logging.getLogger("orchtrace_otel").warning("alarm")

    with pytest.raises(StrictError) as told, strict():
        misbehave()
    assert "an open 'invoke_workflow x'" in str(told.value)
    assert "orchtrace_otel: alarm" in str(told.value)


def test_an_error_of_the_block_goes_through() -> None:
    """The test's own exception is what is seen, whatever else did not hold."""

    def misbehave() -> None:
        spans.start_run("x")
        raise LookupError

    with pytest.raises(LookupError), strict():
        misbehave()


def test_everything_logged_is_kept() -> None:
    """`watch` keeps what was logged at every level, and leaves the levels as they were."""
    logger = logging.getLogger("orchtrace_otel")
    before = logger.level
    with watch() as watched:
        logger.debug("detail")
    assert watched.logged == ["orchtrace_otel: detail"]
    assert watched.problems == []
    assert logger.level == before


PLUGIN_TEST = """
import orchtrace_otel as orchtrace
import pytest
from orchtrace_otel import _guard, spans

@_guard.guarded
def fails():
    raise LookupError

def test_good(strictly_captured):
    orchtrace.agent(len, name="critic")("four")
    assert len(strictly_captured.traces) == 1

def test_leaves_open(strictly_captured):
    spans.start_run("x")

@pytest.mark.swallows_errors
def test_swallows_anywhere(strictly_captured):
    fails()

@pytest.mark.swallows_errors("test_plugged.fails")
def test_swallows_there(strictly_captured):
    fails()

def test_swallows_unnoticed(strictly_captured):
    fails()
"""


def test_the_fixture_is_strict(tmp_path) -> None:
    """The plugin's fixture fails at teardown, and its marker needs no registering."""
    (tmp_path / "test_plugged.py").write_text(PLUGIN_TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "orchtrace_otel.testing.plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-q",
        "-rA",
        "test_plugged.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = [line.split(" - ")[0] for line in done.stdout.splitlines()]
    ended = [line for line in lines if line.startswith(("PASSED", "ERROR", "FAILED"))]
    assert sorted(ended) == [
        "ERROR test_plugged.py::test_leaves_open",
        "ERROR test_plugged.py::test_swallows_unnoticed",
        "PASSED test_plugged.py::test_good",
        "PASSED test_plugged.py::test_leaves_open",
        "PASSED test_plugged.py::test_swallows_anywhere",
        "PASSED test_plugged.py::test_swallows_there",
        "PASSED test_plugged.py::test_swallows_unnoticed",
    ], done.stdout
