"""What an adapter is: hooks into one framework, found by entry point, put on and taken off.

An adapter patches its framework while it is instrumented, with `Patches`, and opens
spans through `spans`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.errors import NO_METADATA, ConfigError, MissingDependencyError
from orchtrace_otel.patches import Patches, Shared, Wrapper
from orchtrace_otel.settings import option
from orchtrace_otel.threads import Threads

# Only setting up needs importlib.metadata and packaging, and they are dear to import: both
# are imported where they are used.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay.replayer import Replayer, Score

__all__ = [
    "Adapter",
    "Hooks",
    "Instrumented",
    "Patches",
    "Shared",
    "Wrapper",
    "alone",
    "find_replayer",
    "hold",
    "hold_threads",
    "instrument",
    "load",
    "registered",
    "wrap",
]

GROUP: Final = "orchtrace.adapter"

_logger = logging.getLogger("orchtrace_otel")


class Hooks(Protocol):
    """What can be put in and taken out: an adapter, or the hooks into threads."""

    name: ClassVar[str]

    def instrument(self) -> None:
        """Put the hooks in; called when they are out."""

    def uninstrument(self) -> None:
        """Take the hooks out; called when they are in, or did not all go in."""


class Adapter(ABC):
    """Hooks into one framework.

    Attributes:
        name: Name by which `instrument(name)` finds it; also the run's `system`.
        extra: The extra of this distribution that installs the framework.
        module: Module whose presence in `sys.modules` says that the framework is in use.
        requires: Distribution to the range of versions that was tried.
        options: What `ORCHTRACE_<NAME>_<OPTION>` may choose, by option; the default first.
    """

    name: ClassVar[str]
    extra: ClassVar[str]
    module: ClassVar[str]
    requires: ClassVar[Mapping[str, str]]
    options: ClassVar[Mapping[str, Sequence[str]]] = {}

    @abstractmethod
    def instrument(self) -> None:
        """Put the hooks in; called when they are out."""

    @abstractmethod
    def uninstrument(self) -> None:
        """Take the hooks out; called when they are in, or did not all go in."""

    def wrap(self, target: Any, name: str, role: str | None) -> Any:  # noqa: ARG002 - for adapters
        """Return `target` traced under `name` where it is the framework's, else None."""
        return None

    def replayer(
        self,
        target: Any,  # noqa: ARG002 - for adapters
        trace: Trace,  # noqa: ARG002 - for adapters
        score: Score,  # noqa: ARG002 - for adapters
    ) -> Replayer | None:
        """Return what runs a recorded run of `target` again, for `orchtrace.counterfactual`.

        Args:
            target: What was handed to `counterfactual`, such as a compiled graph.
            trace: The recorded run.
            score: From what the team returns to the outcome.

        Returns:
            None where `target` is not the framework's.
        """
        return None

    def demo(self) -> Any:
        """Run a small team offline, for `orchtrace demo`; None where there is none."""
        return None

    @classmethod
    def option(cls, name: str) -> str:
        """Return what the environment chooses of an option that `options` declares.

        Raises:
            ConfigError: If it chooses what is no choice.
        """
        return option(cls.name, name, cls.options[name])

    @classmethod
    def unmet(cls) -> str | None:
        """Say which requirement is not met, as `langgraph>=1 (found 0.6)`; None if all are."""
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - see above

        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - see above

        for distribution, wanted in cls.requires.items():
            try:
                found = version(distribution)
            except PackageNotFoundError:
                return f"{distribution}{wanted} (found none)"
            if not SpecifierSet(wanted, prereleases=True).contains(found):
                return f"{distribution}{wanted} (found {found})"
        return None


@dataclass(slots=True)
class _Held:
    hooks: Hooks
    users: int = 0


_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 (a child's copy may be held by a thread it does not have)
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

_known: dict[str, Adapter] = {}
_active: dict[str, _Held] = {}
_threads: Final = Threads()


def registered() -> dict[str, EntryPoint]:
    """Return the adapters that installed distributions offer, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - see above

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load(name: str) -> Adapter:
    """Return the adapter called `name`.

    Raises:
        ConfigError: If no installed distribution offers it.
        MissingDependencyError: If its framework is absent or of another version.
    """
    if name in _known:
        return _known[name]
    entries = registered()
    if name not in entries:
        known = f" ({', '.join(sorted(entries))})" if entries else ""
        msg = f"instrument() needs names of adapters that are installed{known}, got {name!r}"
        if not entries:
            msg = f"{msg}; {NO_METADATA}"
        raise ConfigError(msg)
    try:
        kind: type[Adapter] = entries[name].load()
    except ImportError as error:
        raise MissingDependencyError(_missing(name, name, str(error))) from error
    unmet = kind.unmet()
    if unmet is not None:
        raise MissingDependencyError(_missing(name, kind.extra, unmet))
    _known[name] = kind()
    return _known[name]


def _missing(name: str, extra: str, unmet: str) -> str:
    return f"adapter {name!r} needs {unmet}; run: pip install 'orchtrace-otel[{extra}]'"


class Instrumented:
    """What `instrument()` put in; a context manager that takes it out again."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: Final = tuple(names)
        self._is_on = True

    def uninstrument(self) -> None:
        """Take out what was put in, unless another `instrument()` still needs it."""
        with _lock:
            if not self._is_on:
                return
            self._is_on = False
            for name in reversed(self.names):
                _release(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstrument()


def instrument(names: Sequence[str]) -> Instrumented:
    """Put the named adapters in, or every one whose framework is installed."""
    with _lock, ExitStack() as undo:
        named: list[Hooks] = [load(name) for name in names]
        held: list[str] = []
        for hooks in (_threads, *named):
            hold(hooks)
            undo.callback(_release, hooks.name)
            held.append(hooks.name)
        for adapter in () if names else _usable():
            if _holds(adapter):
                undo.callback(_release, adapter.name)
                held.append(adapter.name)
        undo.pop_all()
        return Instrumented(held)


def _usable() -> list[Adapter]:
    usable: list[Adapter] = []
    known = registered()
    if not known:
        warn_once("adapters", "instrument() puts in no adapter: %s", NO_METADATA)
    for name in sorted(known):
        try:
            usable.append(load(name))
        except MissingDependencyError as error:
            _logger.debug("adapter %s is left out: %s", name, error)
    return usable


def _holds(adapter: Adapter) -> bool:
    """Put in an adapter that nobody asked for by name; one that does not fit is left out."""
    try:
        hold(adapter)
    except (ImportError, AttributeError) as error:
        warn_once(
            f"adapter:{adapter.name}",
            "adapter %s does not fit the %s that is installed and is left out (%s)",
            adapter.name,
            adapter.module,
            error,
        )
        return False
    return True


def hold(hooks: Hooks) -> None:
    """Count one more user of `hooks`; the first one puts them in."""
    with _lock:
        held = _active.get(hooks.name)
        if held is None:
            _put_in(hooks)
            held = _active[hooks.name] = _Held(hooks)
        held.users += 1


def _put_in(hooks: Hooks) -> None:
    try:
        hooks.instrument()
    except BaseException:
        with suppress(ImportError, AttributeError):  # what does not fit may not come out either
            hooks.uninstrument()
        raise


def _release(name: str) -> None:
    held = _active[name]
    held.users -= 1
    if not held.users:
        del _active[name]
        held.hooks.uninstrument()


@guarded
def wrap(target: Any, name: str, role: str | None) -> Any:
    """Return a framework's object traced under `name`, or None if no adapter knows it.

    Only adapters whose framework is loaded already are asked. The one that knows it
    is put in, if it is not yet: a decorator must be enough.
    """
    for known in sorted(registered()):
        try:
            adapter = load(known)
        except MissingDependencyError:
            continue
        if adapter.module not in sys.modules:
            continue
        traced = adapter.wrap(target, name, role)
        if traced is not None:
            if adapter.name not in _active:
                hold(adapter)
            return traced
    return None


def find_replayer(target: Any, trace: Trace, score: Score) -> Replayer | None:
    """Return what runs a framework's `target` again, or None if no adapter knows it."""
    for known in sorted(registered()):
        try:
            adapter = load(known)
        except MissingDependencyError:
            continue
        found = adapter.replayer(target, trace, score)
        if found is not None:
            return found
    return None


@contextmanager
def alone(adapter: Adapter) -> Generator[Instrumented, None, None]:
    """Put `adapter` in, and any other of its name out meanwhile; for tests of adapters."""
    name = adapter.name
    with _lock:
        known, held = _known.pop(name, None), _active.pop(name, None)
        if held is not None:
            held.hooks.uninstrument()
        hold(adapter)
        _known[name] = adapter
    try:
        yield Instrumented([name])
    finally:
        with _lock:
            while name in _active:
                _release(name)
            del _known[name]
            if known is not None:
                _known[name] = known
            if held is not None:
                held.hooks.instrument()
                _active[name] = held


def hold_threads() -> Instrumented:
    """Hand causes on to threads until the handle is released."""
    with _lock:
        hold(_threads)
        return Instrumented([_threads.name])
