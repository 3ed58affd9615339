"""The one place that catches `Exception` broadly, so that the host never notices us.

Code of ours that runs inside a host application is wrapped in `guarded`. What it
raises is swallowed, counted, and logged once a site: the class of the error and
where it was raised, never its text, which may hold the host's content.
`BaseException` (a cancellation, an interrupt) always passes.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_logger = logging.getLogger("orchtrace_otel")

P = ParamSpec("P")
R = TypeVar("R")

swallowed: Counter[str] = Counter()
"""How many errors each site swallowed since the process began."""


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """Make `function` return None instead of raising an `Exception`.

    Example:
        >>> guarded(lambda: "fine")()
        'fine'
    """
    site = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            note(site, error)
            return None

    return inner


def note(site: str, error: Exception) -> None:
    """Count an error that was swallowed at `site`, and log the first one there."""
    swallowed[site] += 1
    if swallowed[site] > 1:
        return
    _logger.warning(
        "orchtrace failed in %s with %s and left the application alone; "
        "further failures there are only counted; the traceback is logged at DEBUG",
        site,
        type(error).__name__,
    )
    _logger.debug("traceback of the failure in %s", site, exc_info=error)


_MOST_TOLD = 1_000
_told: set[str] = set()


def warn_once(key: str, message: str, *args: object, level: int = logging.WARNING) -> None:
    """Log a message the first time that `key` comes; keys that never end are not remembered."""
    if key not in _told and len(_told) < _MOST_TOLD:
        _told.add(key)
        _logger.log(level, message, *args)
