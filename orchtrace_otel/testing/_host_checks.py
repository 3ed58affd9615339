"""Checks of the host: it sees what it sees untraced, whatever fails."""

from __future__ import annotations

import gc
import weakref
from abc import ABC
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from orchtrace_otel import _guard, spans
from orchtrace_otel import adapter as adapters
from orchtrace_otel import attributes as a
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._recordings import drive
from orchtrace_otel.testing._teams import CANARY, AdapterTeams
from orchtrace_otel.testing.strict import watch

if TYPE_CHECKING:
    from opentelemetry.context import Context


class HostChecks(AdapterTeams, ABC, kit=True):
    """What the host must never notice."""

    @check
    def test_results_are_the_same(self) -> None:
        """What a team returns, and the items of its streams, are what they are untraced.

        Troubleshooting: wrappers return what the wrapped function returned, and yield every
        item as it came; `plain` takes ids and times off for the comparison.
        """
        for one in self._recordings():
            wanted = self._outcome(one.scenario, one.way)
            came = self._plainly(one.outcome)
            must = f"{one.name} must give the host {self._plainly(wanted)!r}"
            self.must(came == self._plainly(wanted), must, repr(came))

    @check
    def test_the_hosts_exception_goes_through(self) -> None:
        """The exception of an agent reaches the caller as it does untraced: the same object.

        Troubleshooting: re-raise with a bare `raise`; wrap nothing, add no cause and no note.
        """
        for way in self._ways():
            untraced, traced = ValueError(CANARY), ValueError(CANARY)
            before = drive(self, way, self.failing(untraced)).error
            with watch(), adapters.alone(self.make_adapter()):
                came = drive(self, way, self.failing(traced)).error
            must = f"failing by {way}() must raise what it raises untraced, {before!r}"
            self.must(type(came) is type(before) and str(came) == str(before), must, repr(came))
            if before is untraced:
                must = f"failing by {way}() must raise the very object that the agent raised"
                self.must(came is traced, must, repr(came))
                # A framework may add notes of its own; they hold ids, so only count.
                notes = [len(getattr(error, "__notes__", ())) for error in (untraced, traced)]
                is_bare = notes[0] == notes[1] and traced.__cause__ is untraced.__cause__
                self.must(is_bare, "the exception must stay as it was", (notes, traced.__cause__))

    @check
    def test_a_tool_that_fails_fails_as_untraced(self) -> None:
        """A tool's exception does what it does untraced; the call is closed, as an error.

        Troubleshooting: close the scope of a call on every way out, and raise again with a
        bare `raise`; where the framework makes an answer of an error, ask the answer.
        """
        self.skip_unless("can_call_tools", "the framework has no tools")

        def fail() -> None:
            raise ValueError(CANARY)

        for way in self._ways():
            before = drive(self, way, self.calling_tool(fail))
            with watch() as watched, adapters.alone(self.make_adapter()):
                after = drive(self, way, self.calling_tool(fail))
            wanted = (repr(before.error), self._plainly(before))
            came = (repr(after.error), self._plainly(after))
            must = f"a tool that fails by {way}() must give the host {wanted!r}"
            self.must(came == wanted, must, came)
            must = f"a tool that fails by {way}() must leave every span ended, and one trace"
            is_whole = not watched.captured.open and len(watched.captured.traces) == 1
            self.must(is_whole, must, [*watched.captured.open.values()])
            ended = [e for e in watched.captured.traces[0].events if e.verb == "tool_result"]
            must = f"a tool that fails by {way}() must have one result, of status error"
            statuses = [event.get("status") for event in ended]
            self.must(statuses == ["error"], must, statuses)

    @check
    def test_nothing_of_the_host_is_kept(self) -> None:
        """Once a run is over, nothing of ours keeps its team alive.

        Troubleshooting: look teams up in a WeakKeyDictionary, or by an id that is taken out
        when the run ends; keep no frame, no exception and no message.
        """
        for way in self._ways():
            is_kept_untraced = self._is_kept(way)
            with watch(), adapters.alone(self.make_adapter()):
                is_kept = self._is_kept(way)
            must = f"a team must be gone after a run by {way}(), as it is untraced"
            self.must(is_kept_untraced or not is_kept, must, "a team that is alive")

    def _is_kept(self, way: str) -> bool:
        team = self._team(self._richest(), self._look_away)
        try:
            ref = weakref.ref(team)
        except TypeError:  # such as a tuple: nobody can tell
            return False
        drive(self, way, team)
        del team
        gc.collect()
        return ref() is not None

    @check
    def test_an_error_marks_the_agent_and_the_run(self) -> None:
        """A failure is status ERROR on the agent's and the run's span, with the class alone.

        Troubleshooting: pass `status="error", error=error` to close; never record_exception,
        whose event holds the text.
        """
        for one, _ in self._traces("failing"):
            for span in one.captured.spans:
                found = span.attributes or {}
                must = f"{one.name} must record no exception event and no description"
                told = (span.events, span.status.description)
                self.must(not span.events and not span.status.description, must, told)
                is_root = span.parent is None
                if is_root or (a.OPENS in found and found.get(a.AGENT_NAME) == "worker"):
                    must = f"{one.name} must give {span.name!r} status ERROR"
                    is_error = span.status.status_code is StatusCode.ERROR
                    self.must(is_error, must, span.status.status_code.name)
                    must = f"{one.name} must say the class of the error on {span.name!r}"
                    self.must(a.ERROR_TYPE in found, must, sorted(found))

    @check
    def test_only_failures_are_errors(self) -> None:
        """No span of a team that did not fail has status ERROR.

        Troubleshooting: a pause, a hand-off or a consumer that left is no error; teach
        spans.outcomes the framework's own exceptions for these.
        """
        for one in self._recordings():
            bad = [s.name for s in one.captured.spans if s.status.status_code is StatusCode.ERROR]
            is_fine = one.scenario == "failing" or not bad
            self.must(is_fine, f"{one.name} must have no span of status ERROR", bad)

    @check
    def test_every_span_ends_once(self) -> None:
        """Every span that was started has ended, once, and its run became a trace.

        Troubleshooting: look for a way out that closes nothing: an exception, an early
        return, a generator nobody finishes.
        """
        for one in self._recordings():
            bad = one.problems("span", "run", "loss")
            self.must(not bad, f"{one.name} must end each span once", "; ".join(bad))

    @check
    def test_the_callers_context_is_left_alone(self) -> None:
        """The OTel context of the caller is the same after the run, and between items.

        Troubleshooting: detach every token in a `finally`, in the task that attached; keep
        nothing attached across a yield.
        """
        for one in self._recordings():
            bad = one.problems("context")
            self.must(not bad, f"{one.name} must leave the context alone", "; ".join(bad))

    @check
    def test_nothing_fails_behind_the_guard(self) -> None:
        """The guard swallowed nothing, and nothing above INFO was logged.

        Troubleshooting: set the logger orchtrace_otel to DEBUG to see the traceback.
        """
        for one in self._recordings():
            bad = one.problems("swallowed", "warned", "log")
            self.must(not bad, f"{one.name} must go without a failure", "; ".join(bad))

    @check
    def test_a_failing_tracer_never_reaches_the_host(self) -> None:
        """Whichever span fails to start or to end, the host sees what it sees untraced.

        Troubleshooting: put everything of ours into functions under `guarded`, and let the
        host's own call stand outside of them; handle the None that they return then.
        """
        scenario = self._richest()
        for way in self._ways():
            wanted = self._plainly(self._outcome(scenario, way))
            total = len(
                next(one for one in self._recordings(scenario) if one.way == way).captured.spans
            )
            for kind in ("start", "end"):
                for nth in range(total):
                    self._fail_once(scenario, way, _Failing(kind, nth), wanted)

    def _fail_once(self, scenario: str, way: str, failing: _Failing, wanted: Any) -> None:
        what = f"{scenario} by {way}(), where the {failing} fails,"
        swallowed = dict(_guard.swallowed)
        with watch() as watched, adapters.alone(self.make_adapter()):
            watched.captured.provider.add_span_processor(failing)
            outcome = drive(self, way, self._team(scenario, self._look_away))
        is_noticed = dict(_guard.swallowed) != swallowed
        # What is provoked here is no news to a fixture that watches the guard.
        _guard.swallowed.clear()
        _guard.swallowed.update(swallowed)
        self.must(outcome.error is None, f"{what} must not raise", repr(outcome.error))
        came = self._plainly(outcome)
        self.must(came == wanted, f"{what} must give the host {wanted!r}", repr(came))
        context = [str(p) for p in [*watched.problems, *outcome.problems] if p.kind == "context"]
        self.must(not context, f"{what} must leave the context alone", context)
        self.must(is_noticed, f"{what} must go through the guard", "nothing that it counted")

    @check
    def test_unsampled_runs_are_the_same(self) -> None:
        """Where the host's sampler drops everything, the host sees the same, and no span is made.

        Troubleshooting: check `run.is_recording`, or expect spans that do not record.
        """
        for scenario in self._scenarios():
            for way in self._ways():
                taken = _Taken()
                provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
                provider.add_span_processor(taken)
                pipeline = Pipeline(Settings(), synchronous=True)
                with watch() as watched, adapters.alone(self.make_adapter()):
                    before = spans.use(spans.Tracing(provider.get_tracer(a.SCOPE), pipeline))
                    try:
                        outcome = drive(self, way, self._team(scenario, self._look_away))
                    finally:
                        spans.use(before)
                wanted = self._plainly(self._outcome(scenario, way))
                must = f"{scenario} by {way}(), unsampled, must give the host {wanted!r}"
                self.must(self._plainly(outcome) == wanted, must, repr(self._plainly(outcome)))
                must = f"{scenario} by {way}(), unsampled, must make no span of ours"
                self.must(not taken.names, must, taken.names)
                bad = [str(p) for p in [*watched.problems, *outcome.problems]]
                must = f"{scenario} by {way}(), unsampled, must go without a failure"
                self.must(not bad, must, "; ".join(bad))


class _Failing(SpanProcessor):
    """Raises when the nth span of ours starts, or ends."""

    def __init__(self, kind: str, nth: int) -> None:
        self._kind = kind
        self._left = nth

    def __str__(self) -> str:
        return f"{self._kind} of span {self._left}"

    def on_start(self, span: ReadableSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        if self._kind == "start":
            self._count()

    def on_end(self, span: ReadableSpan) -> None:  # noqa: ARG002 - the SDK's signature
        if self._kind == "end":
            self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left == -1:
            msg = "a tracer that fails"
            raise RuntimeError(msg)


class _Taken(SpanProcessor):
    """Notes which spans started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, span: ReadableSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        self.names.append(span.name)
