"""The one place that catches `Exception` broadly, so that the host never notices us.

Code of ours that runs inside a host application is wrapped in `guarded`. What it
raises is swallowed, counted, and logged once a site: the class of the error and
where it was raised, never its text, nor that of the errors behind it, which may hold
the host's content; but for a call
whose arguments do not fit, which Python tells by the names of parameters.
`BaseException` (a cancellation, an interrupt) always passes, and so does what a handler of
a signal raises, such as a worker's limit of time: it is the host's, wherever it comes. What a
function of the host's raises, which we call, is told the same way, as theirs.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections import Counter
from collections.abc import Callable
from inspect import CO_VARARGS, isfunction, isroutine
from typing import Final, ParamSpec, TypeVar, cast

_logger = logging.getLogger("orchtrace_otel")

P = ParamSpec("P")
R = TypeVar("R")

_OURS: Final = "orchtrace"
_NO_COST: Final = "left the application alone"

swallowed: Counter[str] = Counter()
"""How many errors each site swallowed since the process began."""


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """Make `function` return None instead of raising an `Exception`.

    Example:
        >>> guarded(lambda: "fine")()
        'fine'
    """
    return _guarded(function, _OURS, _NO_COST)


def asked(function: Callable[P, R], whose: str, cost: str) -> Callable[P, R | None]:
    """Guard a function of the host's, which is to be told as theirs where it fails.

    Args:
        function: The function.
        whose: What it is, such as `a callback of advise()`.
        cost: What its failure costs; goes on a sentence that says that it failed.
    """
    return _guarded(function, whose, cost)


def _guarded(function: Callable[P, R], whose: str, cost: str) -> Callable[P, R | None]:
    site = site_of(function)

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            note(site, error, whose, cost, _misfit(function, error))
            return None

    return inner


def _misfit(function: object, error: Exception) -> str:
    """Say which arguments do not fit the function; nothing where they do.

    Python says it in names of parameters, never in values, before a frame of the function is
    there.
    """
    trace = error.__traceback__
    began = trace is not None and trace.tb_next is not None
    fits = began or not isfunction(function) or not isinstance(error, TypeError)
    return "" if fits else f" ({error})"


def note(
    site: str, error: Exception, whose: str = _OURS, cost: str = _NO_COST, why: str = ""
) -> None:
    """Count an error that was swallowed at `site`, and log the first one there.

    One that came out of a signal's handler is raised again instead.

    Args:
        site: Where it was swallowed.
        error: What was raised; its class alone is told.
        whose: Whose code failed.
        cost: What the failure costs.
        why: What else may be told, without a word of the host's content.
    """
    if _is_of_a_signal(error):
        raise error
    swallowed[site] += 1
    if swallowed[site] > 1:
        return
    _logger.warning(
        "%s failed in %s with %s%s and %s; "
        "further failures there are only counted; the traceback is logged at DEBUG",
        whose,
        site,
        type(error).__name__,
        why,
        cost,
    )
    if _logger.isEnabledFor(logging.DEBUG):
        raised_at = "".join(traceback.format_tb(error.__traceback__))
        _logger.debug("failure in %s:\n%s%s", site, raised_at, type(error).__qualname__)


def _is_of_a_signal(error: Exception) -> bool:
    """Whether a handler of a signal raised it, which Python calls in the middle of anything.

    A handler is given the frame that it interrupts, from which it looks called: nobody else
    hands on a frame of its own.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        code = trace.tb_frame.f_code
        taken = code.co_argcount + bool(code.co_flags & CO_VARARGS) + code.co_kwonlyargcount
        held = trace.tb_frame.f_locals
        if any(_is_or_has(held.get(name), interrupted) for name in code.co_varnames[:taken]):
            return True
    return False


def _is_or_has(given: object, frame: object) -> bool:
    several = cast("tuple[object, ...]", given) if type(given) is tuple else (given,)
    return any(one is frame for one in several)


def site_of(function: object) -> str:
    """Name a function by its module and name, a lambda by its line too, an object by its class.

    Example:
        >>> site_of(functools.partial(site_of, len)), site_of(Counter())
        ('orchtrace_otel._guard.site_of', 'collections.Counter')
    """
    while isinstance(function, functools.partial):
        function = function.func
    named = function if isroutine(function) or isinstance(function, type) else type(function)
    module = getattr(named, "__module__", None) or "builtins"
    line = ""
    if isfunction(named) and named.__name__ == "<lambda>":
        line = f":{named.__code__.co_firstlineno}"
    return f"{module}.{named.__qualname__}{line}"


_MOST_TOLD = 1_000
_told: set[str] = set()


def warn_once(key: str, message: str, *args: object, level: int = logging.WARNING) -> None:
    """Log a message the first time that `key` comes; keys that never end are not remembered."""
    if key not in _told and len(_told) < _MOST_TOLD:
        _told.add(key)
        _logger.log(level, message, *args)
