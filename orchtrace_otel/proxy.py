"""An object whose entry methods are traced, for objects that no adapter knows."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import wrapt

from orchtrace_otel.calls import Plan
from orchtrace_otel.wrapping import SELF, trace_function

# wrapt's proxies are generic for type checkers alone until wrapt 2.
if TYPE_CHECKING:
    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy


Traced: TypeAlias = tuple[Any, Callable[..., Any]]


class TracedObject(_ObjectProxy):
    """Stands for an object; everything but its entry methods is the object's own.

    Args:
        wrapped: The object.
        traced: Its entry methods by name, each as it was and traced.
        plan: What it was decorated as.
    """

    def __init__(self, wrapped: Any, traced: dict[str, Traced], plan: Plan) -> None:
        super().__init__(wrapped)
        self._self_traced = traced
        self._self_plan = plan

    def _self_method(self, name: str) -> Any:
        """Return an entry method, traced: the one that the object has by now: tests swap them."""
        known, traced = self._self_traced[name]
        found = getattr(self.__wrapped__, name)
        if found is known or (type(found) is MethodType and found == known):
            return traced
        if not callable(found):
            return found
        self._self_traced[name] = as_traced(self.__wrapped__, found, self._self_plan)
        return self._self_traced[name][1]

    def __repr__(self) -> str:
        """Say what the object says of itself: it may stand in a log, or in a prompt."""
        return repr(self.__wrapped__)

    @property
    def __orchtrace__(self) -> object:
        """What it was decorated as, for adapters that find it in their framework."""
        return self._self_plan

    def __copy__(self) -> Any:
        """Copy the object; the copy is traced as this one is."""
        return stand_in(copy.copy(self.__wrapped__), self._self_traced, self._self_plan)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the object and what it holds; the copy is traced as this one is."""
        inner = copy.deepcopy(self.__wrapped__, memo)
        return stand_in(inner, self._self_traced, self._self_plan)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the object, and how it is traced."""
        return stand_in, (self.__wrapped__, tuple(self._self_traced), self._self_plan)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in super().__getattribute__("_self_traced"):
            return self._self_method(name)
        return super().__getattribute__(name)


class TracedCallable(TracedObject):
    """The same for an object that can be called: one that cannot must not look as if."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """The object's own call, traced: frameworks look at whether it is a coroutine's."""
        call: Callable[..., Any] = self._self_method("__call__")
        return call


_OPERATIONS: Final = (
    "__await__",
    "__aiter__",
    "__anext__",
    "__next__",
    "__aenter__",
    "__aexit__",
    "__fspath__",
    "__length_hint__",
)
"""What Python looks for on a class alone, and not every release of wrapt's proxies has."""


@cache
def _kind(base: type[TracedObject], operations: tuple[str, ...]) -> type[TracedObject]:
    """Return a proxy's class with these operations: one without must not look as if."""
    if not operations:
        return base
    return type(base.__name__, (base,), {name: _handed_on(name) for name in operations})


def _handed_on(name: str) -> Callable[..., Any]:
    def operate(self: TracedObject, *args: Any) -> Any:
        wrapped = self.__wrapped__
        own = cast("Any", type(wrapped))
        return getattr(own, name)(wrapped, *args)

    operate.__name__ = name
    return operate


def stand_in(wrapped: Any, methods: Iterable[str], plan: Plan) -> TracedObject:
    """Return a proxy of an object, decorated as `plan`, whose entry `methods` are traced."""
    traced = {name: as_traced(wrapped, getattr(wrapped, name), plan) for name in methods}
    base = TracedCallable if "__call__" in traced else TracedObject
    own = cast("Any", type(wrapped))
    lacking = (name for name in _OPERATIONS if hasattr(own, name) and not hasattr(base, name))
    return _kind(base, tuple(lacking))(wrapped, traced, plan)


def as_traced(wrapped: Any, method: Any, plan: Plan) -> Traced:
    """Return an entry method, and itself traced: a method still, pickled by way of its object."""
    if inspect.ismethod(method) and method.__self__ is wrapped:
        return method, MethodType(trace_function(plan, method.__func__, SELF), wrapped)
    return method, trace_function(plan, method, wrapped)
