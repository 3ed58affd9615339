"""What an exception means for whatever ended with it: a status, and a reason to stop."""

from __future__ import annotations

from typing import Final

outcomes: Final[dict[type[BaseException], tuple[str, str]]] = {
    Exception: ("error", "error"),
    GeneratorExit: ("cancelled", "consumer_closed"),
    KeyboardInterrupt: ("cancelled", "cancelled"),
    BaseException: ("cancelled", "external"),
}
"""Status and stop reason of what ends with an exception; adapters add their
framework's own ways of pausing and handing over, which are no errors."""


def outcome(error: BaseException | None) -> tuple[str, str]:
    """Return the status and the stop reason of what ended with `error`.

    Example:
        >>> outcome(None), outcome(ValueError()), outcome(GeneratorExit())
        (('ok', 'information_complete'), ('error', 'error'), ('cancelled', 'consumer_closed'))
    """
    if error is None:
        return ("ok", "information_complete")
    kinds = type(error).__mro__
    if any(kind.__name__ == "CancelledError" for kind in kinds):
        return ("cancelled", "cancelled")  # asyncio's, without importing asyncio
    return next(outcomes[kind] for kind in kinds if kind in outcomes)


def error_type(error: BaseException) -> str:
    """Return the class of an error as the conventions write it, never its text."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
