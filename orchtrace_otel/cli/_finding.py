"""One thing that `orchtrace doctor` looked at, and the findings that several checks make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from orchtrace_otel.errors import MissingDependencyError, OrchtraceError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Level: TypeAlias = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: Which part of the report it belongs to.
        level: `ok`, `note` (worth knowing) or `wrong` (costs data or stops work).
        name: What was looked at.
        found: What was found.
        advice: What to do; empty where there is nothing to do.
    """

    topic: str
    level: Level
    name: str
    found: str
    advice: str = ""


def broken(topic: str, name: str, entry: EntryPoint, error: Exception) -> Finding:
    """Say why an entry point does not load, and whose it is."""
    dist = entry.dist.name if entry.dist is not None else "its distribution"
    found = f"{entry.value} does not load: {type(error).__name__}: {error}"
    return Finding(topic, "wrong", name, found, f"reinstall or update {dist}")


def does_not_open(topic: str, name: str, error: Exception, advice: str) -> Finding:
    """Say why something does not open; where a library is missing, how to install it."""
    found, _, command = str(error).partition("; run: ")
    if isinstance(error, MissingDependencyError) and command:
        advice = f"run: {command}"
    elif isinstance(error, OrchtraceError):
        found = str(error)
    else:
        found = f"{type(error).__name__}: {error}"
    return Finding(topic, "wrong", name, found, advice)
