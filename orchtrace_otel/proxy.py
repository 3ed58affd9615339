"""An object whose entry methods are traced, for objects that no adapter knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import wrapt

# wrapt's proxies are generic for type checkers alone until wrapt 2.
if TYPE_CHECKING:
    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy


class TracedObject(_ObjectProxy):
    """Stands for an object; everything but its entry methods is the object's own.

    Args:
        wrapped: The object.
        traced: Its entry methods, traced, by name.
    """

    def __init__(self, wrapped: Any, traced: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(wrapped)
        self._self_traced = traced

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            traced = super().__getattribute__("_self_traced").get(name)
            if traced is not None:
                return traced
        return super().__getattribute__(name)


class TracedCallable(TracedObject):
    """The same for an object that can be called: one that cannot must not look as if."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object, traced."""
        return self._self_traced["__call__"](*args, **kwargs)


def stand_in(wrapped: Any, traced: Mapping[str, Callable[..., Any]]) -> TracedObject:
    """Return a proxy of an object whose entry methods are `traced`."""
    return (TracedCallable if "__call__" in traced else TracedObject)(wrapped, traced)
