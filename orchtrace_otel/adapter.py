"""What an adapter is: hooks into one framework, found by entry point, put on and taken off.

An adapter patches its framework while it is instrumented and opens spans through
`spans/`. `Patches` holds the discipline that every adapter needs: originals are
restored as the very objects, and where another tool has wrapped ours since, ours
turns into a pass-through.
"""

from __future__ import annotations

import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from opentelemetry import context as otel_context

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.errors import ConfigError, MissingDependencyError
from orchtrace_otel.flow import Job

# Only setting up needs importlib.metadata, packaging, wrapt and the threading instrumentation,
# and together they cost more to import than the SDK does: each is imported where it is used.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "orchtrace.adapter"

_logger = logging.getLogger("orchtrace_otel")

Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


class Patches:
    """What an adapter has wrapped in its framework.

    Example:
        >>> class Host:
        ...     def answer(self):
        ...         return 41
        >>> original = Host.answer
        >>> patches = Patches()
        >>> patches.wrap(Host, "answer", lambda wrapped, host, args, kwargs: wrapped() + 1)
        >>> Host().answer()
        42
        >>> patches.undo()
        >>> Host.answer is original
        True
    """

    def __init__(self) -> None:
        self._active = True
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Put `wrapper(wrapped, instance, args, kwargs)` around an attribute of a class or module.

        Raises:
            AttributeError: If there is no such attribute.
        """
        import wrapt  # noqa: PLC0415 - see above

        original = vars(owner).get(name, _INHERITED)
        target = getattr(owner, name) if original is _INHERITED else original
        ours = wrapt.FunctionWrapper(target, wrapper, enabled=self._is_active)
        setattr(owner, name, ours)
        self._undo.append((owner, name, original, ours))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Put another value in the place of an attribute of a class or module."""
        original = vars(owner).get(name, _INHERITED)
        setattr(owner, name, value)
        self._undo.append((owner, name, original, value))

    def undo(self) -> None:
        """Restore the originals where nobody wrapped ours since; ours do nothing any more."""
        self._active = False
        for owner, name, original, ours in reversed(self._undo):
            if vars(owner).get(name) is not ours:
                continue
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._undo.clear()

    def _is_active(self) -> bool:
        return self._active


_INHERITED: Final = object()


class Adapter(ABC):
    """Hooks into one framework.

    Attributes:
        name: Name by which `instrument(name)` finds it; also the run's `system`.
        extra: The extra of this distribution that installs the framework.
        module: Module whose presence in `sys.modules` says that the framework is in use.
        requires: Distribution to the range of versions that was tried.
    """

    name: ClassVar[str]
    extra: ClassVar[str]
    module: ClassVar[str]
    requires: ClassVar[Mapping[str, str]]

    @abstractmethod
    def instrument(self) -> None:
        """Put the hooks in; called when they are out."""

    @abstractmethod
    def uninstrument(self) -> None:
        """Take the hooks out; called when they are in, or did not all go in."""

    def wrap(self, target: Any, name: str, role: str | None) -> Any:  # noqa: ARG002 - for adapters
        """Return `target` traced under `name` where it is the framework's, else None."""
        return None

    def demo(self) -> Any:
        """Run a small team offline, for `orchtrace demo`; None where there is none."""
        return None

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


_lock = threading.RLock()
_known: dict[str, Adapter] = {}
_active: dict[str, int] = {}


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
        known = ", ".join(sorted(entries)) or "none"
        msg = f"instrument() needs names of adapters that are installed ({known}), got {name!r}"
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.uninstrument()


def instrument(names: Sequence[str]) -> Instrumented:
    """Put the named adapters in, or every one whose framework is installed."""
    with _lock:
        wanted = [load(name) for name in names]
        hold(_threads)
        held = [_threads.name]
        for adapter in wanted or _usable():
            if names:
                hold(adapter)
            elif not _holds(adapter):
                continue
            held.append(adapter.name)
        return Instrumented(held)


def _usable() -> list[Adapter]:
    usable: list[Adapter] = []
    for name in sorted(registered()):
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
        with suppress(ImportError, AttributeError):
            adapter.uninstrument()
        return False
    return True


def hold(adapter: Adapter) -> None:
    """Count one more user of `adapter`; the first one puts it in."""
    with _lock:
        if not _active.get(adapter.name):
            _known[adapter.name] = adapter
            adapter.instrument()
        _active[adapter.name] = _active.get(adapter.name, 0) + 1


def _release(name: str) -> None:
    left = _active.get(name, 0) - 1
    _active[name] = max(left, 0)
    if left == 0:
        _known[name].uninstrument()


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
            if not _active.get(adapter.name):
                hold(adapter)
            return traced
    return None


@contextmanager
def alone(adapter: Adapter) -> Generator[Instrumented, None, None]:
    """Put `adapter` in, and any other of its name out meanwhile; for tests of adapters."""
    name = adapter.name
    with _lock:
        before, users = _known.pop(name, None), _active.pop(name, 0)
        if before is not None and users:
            before.uninstrument()
        hold(adapter)
        handle = Instrumented([name])
    try:
        yield handle
    finally:
        with _lock:
            while _active.get(name):
                _release(name)
            _active.pop(name, None)
            _known.pop(name, None)
            if before is not None:
                _known[name], _active[name] = before, users
                if users:
                    before.instrument()


class _Threads(Adapter):
    """Hands causes on to threads and pools, through OpenTelemetry's own instrumentation."""

    name = "threads"
    extra = "all"
    module = "threading"
    requires: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self._ours = False
        self._patches: Patches | None = None

    def instrument(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see above

        from opentelemetry.instrumentation.threading import (  # noqa: PLC0415 - see above
            ThreadingInstrumentor,
        )

        instrumentor = ThreadingInstrumentor()
        self._ours = not instrumentor.is_instrumented_by_opentelemetry
        if self._ours:
            instrumentor.instrument()
        self._patches = Patches()
        self._patches.wrap(ThreadPoolExecutor, "submit", _submit)

    def uninstrument(self) -> None:
        if self._patches is not None:
            self._patches.undo()
        if self._ours:
            from opentelemetry.instrumentation.threading import (  # noqa: PLC0415 - see above
                ThreadingInstrumentor,
            )

            ThreadingInstrumentor().uninstrument()
            self._ours = False


def _submit(
    wrapped: Callable[..., Any],
    pool: Any,  # noqa: ARG001 - wrapt's signature
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Submit work to a pool with the causes that it has now; later its thread cannot know them."""
    job = _hand_over()
    if job is None or not args:
        return wrapped(*args, **kwargs)
    return wrapped(job.run, *args, **kwargs)


@guarded
def _hand_over() -> Job | None:
    scope = spans.scope_of(otel_context.get_current())
    if scope is None or not scope.run.is_recording or scope.run.is_closed:
        return None
    return Job(scope.flow)


_threads: Final = _Threads()


def hold_threads() -> Instrumented:
    """Hand causes on to threads until the handle is released."""
    with _lock:
        hold(_threads)
        return Instrumented([_threads.name])
