"""The strict recorder: `capture()` that fails on what tracing must never do.

Whatever a test asks, these hold beside it: every span that started has ended, once,
and every run became a trace; the OTel context is what it was; the guard swallowed
nothing unnoticed; nobody complained in the log. `strict` raises all that did not hold
at once, `watch` lists it for who wants to judge by kind.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context

from orchtrace_otel import _guard
from orchtrace_otel import attributes as a
from orchtrace_otel.testing.recorder import Captured, capture

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    from opentelemetry.context import Context

    from orchtrace_otel.settings import Settings

LOGGERS: Final = ("orchtrace_otel", "opentelemetry")
"""Whose log records above INFO are a problem."""


class StrictError(AssertionError):
    """Tracing did what it must never do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that did not hold.

    Attributes:
        kind: `span`, `run`, `context`, `swallowed`, `warned` (the guard's log), `loss` or `log`.
        text: What must hold, and what came.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Watched:
    """What `watch` saw.

    Attributes:
        captured: What was recorded.
        problems: What did not hold; complete once the block is left.
        logged: Everything that `LOGGERS` logged, at every level, traceback included.
    """

    captured: Captured
    problems: list[Problem] = field(default_factory=list[Problem])
    logged: list[str] = field(default_factory=list[str])


class _Listener(logging.Handler):
    """Takes every record of `LOGGERS`, whatever their levels and their `propagate` say."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.records: list[logging.LogRecord] = []
        self._levels: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> _Listener:
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(level)


@contextmanager
def watch(
    *, deterministic: bool = False, settings: Settings | None = None
) -> Generator[Watched, None, None]:
    """Record as `capture` does, and list what did not hold when the block is left.

    Args:
        deterministic: As for `capture`.
        settings: As for `capture`.
    """
    swallowed_before = dict(_guard.swallowed)
    context_before = otel_context.get_current()
    with (
        _Listener() as listener,
        capture(deterministic=deterministic, settings=settings) as captured,
    ):
        watched = Watched(captured)
        try:
            yield watched
        finally:
            text = context_problem(context_before, otel_context.get_current())
            if text is not None:
                watched.problems.append(Problem("context", text))
            watched.problems += [
                *_span_problems(captured),
                *_swallowed_problems(swallowed_before),
                *(Problem("loss", _loss(*loss)) for loss in captured.pipeline.losses.items()),
                *_log_problems(listener.records),
            ]
            formatter = logging.Formatter("%(name)s: %(message)s")
            watched.logged += [formatter.format(record) for record in listener.records]


@contextmanager
def strict(
    *,
    deterministic: bool = False,
    settings: Settings | None = None,
    swallows: Collection[str] | bool = False,
    allow: Collection[str] = (),
) -> Generator[Captured, None, None]:
    """Record as `capture` does, and fail on everything that tracing must never do.

    An exception of the block itself goes through as it is. In an async test use it
    inside the test: a context that leaks there is seen in the test's own task only.

    Args:
        deterministic: As for `capture`.
        settings: As for `capture`.
        swallows: Sites (or beginnings of their names) where the guard is to swallow
            an error, each at least once; True for any number of errors anywhere.
        allow: Further kinds of `Problem` that the test brings about on purpose.

    Raises:
        StrictError: With everything that did not hold.

    Example:
        >>> from orchtrace_otel.decorators import agent
        >>> with strict() as captured:
        ...     agent(len, name="critic")("fine")
        4
        >>> captured.started, captured.ended
        (3, 3)
    """
    before = dict(_guard.swallowed)
    with watch(deterministic=deterministic, settings=settings) as watched:
        yield watched.captured
    expected = _sites(swallows)
    told = [
        problem
        for problem in watched.problems
        if problem.kind not in allow
        and not (problem.kind in _SWALLOWED and (swallows is True or _names(problem, expected)))
    ]
    now = _since(before)
    told += [
        Problem(
            "swallowed", f"the guard was to swallow an error in {site}, but nothing failed there"
        )
        for site in expected
        if not any(found.startswith(site) for found in now)
    ]
    if told:
        msg = "\n".join(["tracing must leave no trace of its own:", *(f"- {p}" for p in told)])
        raise StrictError(msg)


_SWALLOWED: Final = ("swallowed", "warned")


def _sites(swallows: Collection[str] | bool) -> tuple[str, ...]:  # noqa: FBT001 - what a caller gave
    if isinstance(swallows, bool):
        return ()
    return (swallows,) if isinstance(swallows, str) else tuple(swallows)


def _names(problem: Problem, sites: tuple[str, ...]) -> bool:
    return any(f" in {site}" in problem.text for site in sites)


def context_problem(before: Context, after: Context) -> str | None:
    """Say what of the OTel context is not as it was before, if anything."""
    if before is after or before == after:
        return None
    changed = sorted(
        key.rpartition("-")[0][-40:] or key
        for key in {*before, *after}
        if before.get(key) is not after.get(key)
    )
    return (
        f"the OTel context must be the same before and after, came other values of {changed}; "
        "look for an attach() without its detach()"
    )


def _span_problems(captured: Captured) -> list[Problem]:
    problems = [
        Problem(
            "span",
            f"every span must end, came an open {name!r}; look for a way out that closes nothing",
        )
        for name in captured.open.values()
    ]
    problems += [
        Problem("span", f"every span must end once, came a second end of {name!r}")
        for name in captured.ended_twice
    ]
    finished = {trace.trace_id for trace in captured.traces}
    for span in captured.spans:
        found = span.attributes or {}
        is_root = found.get(a.OPERATION) == a.INVOKE_WORKFLOW and a.RUN_ID in found
        if is_root and found[a.RUN_ID] not in finished:
            text = f"every run must become a trace, came none for {span.name!r}"
            problems.append(Problem("run", text))
    return problems


def _since(before: Mapping[str, int]) -> dict[str, int]:
    now = _guard.swallowed
    return {site: n - before.get(site, 0) for site, n in now.items() if n != before.get(site, 0)}


def _swallowed_problems(before: Mapping[str, int]) -> list[Problem]:
    return [
        Problem("swallowed", f"nothing must fail behind the guard, came {n} errors in {site}")
        for site, n in _since(before).items()
    ]


def _loss(what: str, count: int) -> str:
    return f"no data must be lost, came {what}: {count}"


def _log_problems(records: Sequence[logging.LogRecord]) -> list[Problem]:
    problems: list[Problem] = []
    for record in records:
        if record.levelno <= logging.INFO:
            continue
        is_of_guard = record.module == "_guard" and record.funcName == "note"
        came = f"{record.levelname} of {record.name}: {record.getMessage()}"
        text = f"nothing above INFO must be logged, came {came}"
        problems.append(Problem("warned" if is_of_guard else "log", text))
    return problems
