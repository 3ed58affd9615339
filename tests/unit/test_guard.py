"""The guard: what it swallows, what it lets pass, and what it tells."""

import asyncio
import inspect
import logging
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from orchtrace_otel import _guard
from orchtrace_otel._guard import guarded, warn_once


@pytest.fixture(autouse=True)
def a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count from zero, and say again what a process says once."""
    monkeypatch.setattr(_guard, "swallowed", Counter())
    monkeypatch.setattr(_guard, "_told", set())


def fails(text: str) -> str:
    """Fail, with a text that may be content."""
    raise ValueError(text)


def inner_misfit(text: str) -> None:
    """Call with arguments that do not fit, further in."""
    fails(text, text)  # type: ignore[call-arg]


SITE = f"{__name__}.fails"


@pytest.mark.swallows_errors
def test_an_error_of_ours_is_swallowed_and_counted() -> None:
    """The host gets None, as often as it happens."""
    function = guarded(fails)
    assert [function("the canary"), function("the canary")] == [None, None]
    assert _guard.swallowed == {SITE: 2}


class OutOfTime(Exception):  # noqa: N818 - workers call theirs so
    """What a worker ends a task with that takes too long."""


def out_of_time(number: int, frame: FrameType | None) -> None:
    """A handler as Celery's and RQ's, which ends the task."""
    raise OutOfTime(number, frame)


def task_out_of_time(task: str, number: int, frame: FrameType | None) -> None:
    """A handler that is told more than what Python tells."""
    raise OutOfTime(task, number, frame)


class Limit:
    """A limit of time, as an object and its method."""

    def __call__(self, *given: object) -> None:
        """Raise."""
        self.over(*given)

    def over(self, *given: object) -> None:
        """Raise."""
        raise OutOfTime(given)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no alarms")
@pytest.mark.parametrize(
    "handler",
    [out_of_time, Limit().over, Limit(), partial(task_out_of_time, "a task")],
)
def test_what_a_handler_of_a_signal_raises_is_the_hosts(handler: Any) -> None:
    """A task's limit of time ends the task though it strikes in the middle of our code."""

    @guarded
    def ours() -> None:
        signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(OutOfTime):
            ours()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not _guard.swallowed


@pytest.mark.swallows_errors
def test_a_site_is_logged_once_by_class_never_by_text(caplog: pytest.LogCaptureFixture) -> None:
    """The warning names where and what kind; the traceback is for DEBUG alone."""
    caplog.set_level(logging.INFO, logger="orchtrace_otel")
    function = guarded(fails)
    function("the canary")
    function("the canary")
    assert [record.getMessage() for record in caplog.records] == [
        f"orchtrace failed in {SITE} with ValueError and left the application alone; "
        "further failures there are only counted; the traceback is logged at DEBUG"
    ]
    assert "canary" not in caplog.text


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ((), "missing 1 required positional argument: 'text'"),
        (("the canary", "another"), "takes 1 positional argument but 2 were given"),
    ],
)
def test_arguments_that_do_not_fit_are_told_by_their_names(
    call: tuple[str, ...], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who misspelled a keyword can mend it; what was given is not said."""
    guarded(fails)(*call)
    assert [record.getMessage() for record in caplog.records] == [
        f"orchtrace failed in {SITE} with TypeError (fails() {said}) and left the application "
        "alone; further failures there are only counted; the traceback is logged at DEBUG"
    ]


@pytest.mark.swallows_errors
@pytest.mark.parametrize("function", [inner_misfit, len])
def test_other_errors_of_types_are_told_by_class_alone(
    function: Callable[[Any], object], caplog: pytest.LogCaptureFixture
) -> None:
    """One from inside of the function, or from one that has no frame, may hold content."""
    guarded(function)(3)
    (told,) = [record.getMessage() for record in caplog.records]
    assert " with TypeError and left the application alone; " in told


@pytest.mark.swallows_errors
def test_the_traceback_is_there_for_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, which is off by default, without what it or an error of the host's says."""
    caplog.set_level(logging.DEBUG, logger="orchtrace_otel")
    try:
        fails("the canary of the host")
    except ValueError:
        guarded(fails)("the canary")
    (told,) = [one for one in caplog.records if one.levelno == logging.DEBUG]
    assert "in fails" in told.getMessage()
    assert told.getMessage().endswith("ValueError")
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]
)
def test_what_is_no_error_passes(kind: type[BaseException]) -> None:
    """A cancellation or an interrupt is the host's, wherever it comes."""
    raised = kind()

    @guarded
    def interrupted() -> None:
        raise raised

    with pytest.raises(kind) as caught:
        interrupted()
    assert caught.value is raised
    assert _guard.swallowed == {}


def test_a_guarded_function_looks_and_answers_as_it_did() -> None:
    """Name, docs, signature and result."""
    function = guarded(fails)
    assert (function.__name__, function.__doc__) == (fails.__name__, fails.__doc__)
    assert inspect.signature(function) == inspect.signature(fails)
    thing = object()
    assert guarded(lambda: thing)() is thing


def test_a_warning_comes_once_a_key(caplog: pytest.LogCaptureFixture) -> None:
    """Others still come."""
    for _ in range(3):
        warn_once("a", "first %s", "x")
    warn_once("b", "second")
    assert [record.getMessage() for record in caplog.records] == ["first x", "second"]
