"""Which argument of a call is the object whose method it is: that one is not what was asked.

A function that is decorated in the body of a class is called with its object, or its class,
in front. Nobody says so to a decorator, so it is told by what is known: by the parameter's
name, by the class in whose body the function stands, and by what a class holds it as.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import FunctionType, MethodType
from typing import Any, Final, cast

from orchtrace_otel.calls import MARK

_NAMES: Final = frozenset(("self", "cls"))
_HELD_AS: Final = (FunctionType, classmethod, staticmethod)
_BY_PLACE: Final = frozenset(
    (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
)
_IMMUTABLE: Final = 1 << 8
"""Flag of classes that nobody can give a method: `Py_TPFLAGS_IMMUTABLETYPE`."""


class Method:
    """How to tell the object from the arguments of a function.

    Args:
        name: Name of the parameter that takes the object, where one may be given by name.
        home: Module and qualified name of the class in whose body the function stands.
        is_sure: Whether what comes first is the object, unless it can have no methods but
            those it is born with, such as a text in a parameter `cls`.
    """

    __slots__ = ("_home", "_is_sure", "_name")

    def __init__(
        self, name: str | None, home: tuple[str, str] | None = None, *, is_sure: bool = False
    ) -> None:
        self._name = name
        self._home = home
        self._is_sure = is_sure

    def arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments of a call without its object."""
        if args:
            return (args[1:] if self._is_of(args[0]) else args), kwargs
        own = self._name
        if own is not None and own in kwargs and self._is_of(kwargs[own]):
            return args, {name: held for name, held in kwargs.items() if name != own}
        return args, kwargs

    def _is_of(self, first: Any) -> bool:
        """Whether the function is a method of what it is called with."""
        kinds = _classes_of(first)
        if self._is_sure:
            return bool(kinds)
        is_home = False
        for kind in kinds:
            for held in list(vars(kind).values()):
                # By identity: the class of what a class holds may have no hash.
                if any(type(held) is one for one in _HELD_AS) and self._is_in(held):
                    return type(held) is not staticmethod
            is_home = is_home or (kind.__module__, kind.__qualname__) == self._home
        return is_home

    def _is_in(self, held: Any) -> bool:
        function: Any = held if type(held) is FunctionType else held.__func__
        plan: Any = function.__dict__.get(MARK) if type(function) is FunctionType else None
        return plan is not None and plan.method is self


ALWAYS: Final = Method("self", is_sure=True)
"""The object is in front, and known to be."""


def _classes_of(first: Any) -> tuple[type[Any], ...]:
    """Return the classes that may hold a method of an object, or of a class."""
    kind = cast("type[object]", type(first))
    above: tuple[type[Any], ...] = kind.__mro__
    # By identity: the class of a class may have an `__eq__` of the host's.
    is_class = any(one is type for one in above)
    return tuple(
        one
        for one in ((*first.__mro__, *above) if is_class else above)
        if not one.__flags__ & _IMMUTABLE
    )


def method_of(target: Any) -> Method | None:
    """Return how to tell the object from the arguments of what is decorated.

    Returns:
        None where nothing but arguments comes: for static methods, for methods that are
        bound already, and for what takes nothing by its place.
    """
    kind = cast("Any", type(target))
    if issubclass(kind, classmethod):
        return ALWAYS
    is_function = inspect.isroutine(target) or issubclass(kind, functools.partial)
    if issubclass(kind, staticmethod) or not is_function:
        return None
    first = _first_of(target)
    if first is None or first.kind not in _BY_PLACE:
        return None
    if first.name in _NAMES:
        return Method(first.name, is_sure=True)
    # What keeps the results of a function stands in its place; a bound method has one too.
    function: Any = target if kind is MethodType else inspect.unwrap(target)
    if not isinstance(function, FunctionType):
        return None
    home = function.__qualname__.rpartition(".")[0]
    is_in_class = bool(home) and not home.endswith("<locals>")
    name = first.name if first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD else None
    return Method(name, (function.__module__, home) if is_in_class else None)


def _first_of(target: Any) -> inspect.Parameter | None:
    try:
        return next(iter(inspect.signature(target).parameters.values()), None)
    except (TypeError, ValueError):  # some written in C have none
        return None
