"""Every class of a kind: model clients, workbenches, memories, executors of code.

What AutoGen lets users implement is abstract, so that wrapping the base is not enough:
the subclasses are wrapped, those that exist and those that come.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Patches, Wrapper


class Family:
    """Wraps the classes below a base while it is on.

    Classes are held weakly, and each holds its own patches: a host that makes classes
    on the fly must be able to lose them.

    Args:
        base: The class that all of them derive from.
        wrappers: The wrapper of each method, by name.
        joined: Called with each class that comes under it.
    """

    def __init__(
        self,
        base: type[Any],
        wrappers: Mapping[str, Wrapper],
        joined: Callable[[type[Any]], None] | None = None,
    ) -> None:
        self._base: Any = base
        self._wrappers = wrappers
        self._joined = joined
        self._kinds: weakref.WeakSet[type] = weakref.WeakSet()
        self._hook: Any = None
        self._mark = f"_orchtrace_{base.__name__}"

    def instrument(self) -> None:
        """Wrap the classes that exist and those that come."""
        base, above, family = self._base, _above, self

        def adopt(cls: Any, /, **kwargs: Any) -> None:
            above(base, cls).__init_subclass__(**kwargs)
            family.adopt(cls)

        self._hook = classmethod(adopt)
        base.__init_subclass__ = self._hook
        for kind in _subclasses(base):
            self.adopt(kind)

    @guarded
    def adopt(self, kind: type[Any]) -> None:
        """Wrap the methods that a class defines itself."""
        if self._hook is None or self._mark in vars(kind):
            return
        if self._joined is not None:
            self._joined(kind)
        own = [name for name in self._wrappers if _is_concrete(vars(kind).get(name))]
        if not own:
            return
        patches = Patches()
        for name in own:
            patches.wrap(kind, name, self._wrappers[name])
        setattr(kind, self._mark, patches)
        self._kinds.add(kind)

    def uninstrument(self) -> None:
        """Restore the very originals where nobody wrapped ours since."""
        base = self._base
        own: dict[str, Any] = dict(base.__dict__)
        if own.get("__init_subclass__") is self._hook:
            del base.__init_subclass__
        self._hook = None
        for kind in list(self._kinds):
            vars(kind)[self._mark].undo()
            delattr(kind, self._mark)
        self._kinds.clear()


_above: Any = super


def _is_concrete(function: object) -> bool:
    return callable(function) and not getattr(function, "__isabstractmethod__", False)


def _subclasses(base: type[Any]) -> list[type[Any]]:
    found: list[type[Any]] = []
    below: list[type[Any]] = base.__subclasses__()
    for kind in below:
        found += [kind, *_subclasses(kind)]
    return list(dict.fromkeys(found))
