"""What the conformance kits share: checks that are inherited whole, and how they fail.

A kit is an abstract class; an author subclasses it in the tests and fills in what only
the author can know. Checks are its `test_` methods. None can be dropped in silence: one
that is deleted or overridden makes the class itself fail, unless it is marked
`pytest.mark.xfail(reason=...)`, and what a subclass cannot do is a skip that says so.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, NoReturn, ParamSpec, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K", bound="Kit")
P = ParamSpec("P")

_TROUBLE: Final = "Troubleshooting:"


class ConformanceError(AssertionError):
    """Something does not hold that a kit asks for."""


def check(function: Callable[Concatenate[K, P], None]) -> Callable[Concatenate[K, P], None]:
    """Make a check of a kit: its failure ends with what its docstring says to look at."""
    doc = inspect.getdoc(function) or ""
    first, _, trouble = doc.partition(_TROUBLE)
    look = " ".join(trouble.split())

    @functools.wraps(function)
    def inner(self: K, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(self, *args, **kwargs)
        except ConformanceError as error:
            told = f"{first.strip()}\n{error}\nlook at: {look}"
            raise ConformanceError(told) from None

    return inner


class Kit:
    """Base of the kits: keeps their checks whole."""

    _checks: ClassVar[dict[str, Any]] = {}
    """The checks of the kit that a class is made from."""

    def __init_subclass__(cls, *, kit: bool = False) -> None:
        """Collect a kit's checks, or see that a subclass has them all as they are.

        Args:
            kit: Whether the class is a kit itself.

        Raises:
            TypeError: If a check is deleted or overridden and not marked xfail with a reason.
        """
        super().__init_subclass__()
        if kit:
            cls._checks = {
                name: getattr(cls, name) for name in dir(cls) if name.startswith("test_")
            }
            return
        for name, inherited in cls._checks.items():
            now = getattr(cls, name, None)
            if now is not inherited and not _is_excused(now):
                msg = (
                    f"{cls.__name__} must leave the check {name} as it is, came an override; "
                    "add a test of another name, or mark it pytest.mark.xfail(reason=...)"
                )
                raise TypeError(msg)

    def fail(self, must: str, came: object) -> NoReturn:
        """Fail, saying what must hold and what came."""
        msg = f"{type(self).__name__}: {must}, came {came}"
        raise ConformanceError(msg)

    def must(self, holds: object, must: str, came: object) -> None:
        """Fail unless something holds."""
        if not holds:
            self.fail(must, came)

    def skip_unless(self, capability: str, what: str) -> None:
        """Skip a check, in plain sight, where a class flag is not set."""
        if not getattr(self, capability):
            pytest.skip(f"{type(self).__name__} does not declare {capability}: {what}")


def _is_excused(override: object) -> bool:
    marks = getattr(override, "pytestmark", ())
    return any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
