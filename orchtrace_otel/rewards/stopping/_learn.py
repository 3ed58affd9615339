"""numpy and scikit-learn, of the extra `learn`: needed to fit and to evaluate, never inline."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from orchtrace_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MISSING: Final = (
    "fitting and evaluating a stopping value needs numpy and scikit-learn; "
    "run: pip install 'orchtrace-otel[learn]'"
)

try:
    import numpy as np
except ImportError as error:
    raise MissingDependencyError(_MISSING) from error

Floats: TypeAlias = "NDArray[np.float64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Places: TypeAlias = "NDArray[np.intp]"

__all__ = ["Flags", "Floats", "Places", "learner", "np", "one_thread"]


def one_thread() -> AbstractContextManager[object]:
    """Keep numpy's own threads away while it is open: on data this small they only wait.

    Raises:
        MissingDependencyError: If scikit-learn, which brings threadpoolctl, is not installed.
    """
    try:
        limits: Any = importlib.import_module("threadpoolctl").threadpool_limits(limits=1)
    except ImportError as error:
        raise MissingDependencyError(_MISSING) from error
    held: AbstractContextManager[object] = limits
    return held


def learner(module: str, name: str) -> Any:
    """Return what scikit-learn's `module` calls `name`.

    Raises:
        MissingDependencyError: If scikit-learn is not installed.
    """
    try:
        return getattr(importlib.import_module(f"sklearn.{module}"), name)
    except ImportError as error:
        raise MissingDependencyError(_MISSING) from error
