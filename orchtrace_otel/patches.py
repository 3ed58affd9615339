"""Patches that come off again.

Originals are restored as the very objects, and where another tool has wrapped ours
since, ours turns into a pass-through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

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

    def wrap(self, owner: Any, name: str, wrapper: Wrapper, *, outlives: bool = False) -> None:
        """Put `wrapper(wrapped, instance, args, kwargs)` around an attribute of a class or module.

        Args:
            owner: The class or module.
            name: The attribute.
            wrapper: What is called in its place.
            outlives: Whether it is called after `undo` by who got hold of it before, to end
                what it began; it must do nothing for whatever began later.

        Raises:
            AttributeError: If there is no such attribute.
        """
        import wrapt  # noqa: PLC0415 - dear to import, and only setting up needs it

        original = _own(owner, name)
        target = getattr(owner, name) if original is _INHERITED else original
        ours = wrapt.FunctionWrapper(target, wrapper, enabled=None if outlives else self._is_active)
        setattr(owner, name, ours)
        self._undo.append((owner, name, original, ours))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Put another value in the place of an attribute of a class or module."""
        original = _own(owner, name)
        setattr(owner, name, value)
        self._undo.append((owner, name, original, value))

    def undo(self) -> None:
        """Restore the originals where nobody wrapped ours since; ours begin nothing any more."""
        self._active = False
        for owner, name, original, ours in reversed(self._undo):
            if _own(owner, name) is not ours:
                continue
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._undo.clear()

    def _is_active(self) -> bool:
        return self._active


class Shared:
    """A context that several hold at once: the first to come enters it, the last to go leaves it.

    Args:
        make: Makes the context, such as one in which a framework is patched.

    Example:
        >>> @contextmanager
        ... def patched():
        ...     print("on")
        ...     yield
        ...     print("off")
        >>> shared = Shared(patched)
        >>> with shared.held(), shared.held():
        ...     print("inside")
        on
        inside
        off
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._holders = 0
        self._entered = ExitStack()

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Hold it for a block, in any thread."""
        with self._lock:
            if not self._holders:
                self._entered.enter_context(self._make())
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._entered.close()


_INHERITED: Final = object()


def _own(owner: Any, name: str) -> Any:
    """Return what an object holds itself under a name, past what its class or bases hold."""
    held: Mapping[str, Any] = owner.__dict__
    return held.get(name, _INHERITED)
