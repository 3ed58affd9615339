"""The exceptions this project raises, all in set-up, in the CLI and in readers.

OrchtraceError
├── ConfigError             (ValueError)   a wrong argument or setting
├── MissingDependencyError  (ImportError)  a framework or library that was asked for by name
├── TraceFormatError        (ValueError)   a file or document that is no trace
├── ReplayBlockedError      (RuntimeError) a replay that must not go on
├── ContentError            (LookupError)  content that a ref names and that is not there
└── StoppingError           (ValueError)   decision points or a stopping model that cannot be used

Nothing is raised into a running host application: there `_guard` logs and counts.
Messages say what must hold, what came and what to do; URLs stand in them `without_password`.
"""

from __future__ import annotations

import re
from typing import Final


class OrchtraceError(Exception):
    """Base of every exception of this project."""


class ConfigError(OrchtraceError, ValueError):
    """An argument or a setting does not hold what it must."""


class MissingDependencyError(OrchtraceError, ImportError):
    """Something that was asked for by name is not installed."""


class TraceFormatError(OrchtraceError, ValueError):
    """A document is not an orchestration trace."""


class ReplayBlockedError(OrchtraceError, RuntimeError):
    """A replay would act on the world, or lacks what it needs; it is counted, and no value."""


class ContentError(OrchtraceError, LookupError):
    """Content that a ref names is not in the store, or is not what it should be."""


class StoppingError(OrchtraceError, ValueError):
    """Decision points or a stopping model do not hold what they must."""


NO_METADATA: Final = (
    "none is found, for the metadata of orchtrace-otel are not here: install it, or have what "
    "freezes the application collect them and our packages (docs/limits.md)"
)
"""Why nothing that installed distributions offer is found: adapters, exporters."""


def without_password(text: str) -> str:
    """Return a URL, or a target that is one, as messages may show it: no password, no query.

    Example:
        >>> without_password("parquet:s3://key:secret@bucket/runs?max_events=9")
        'parquet:s3://bucket/runs'
    """
    scheme, mark, rest = text.partition("?")[0].rpartition("://")
    return f"{scheme}{mark}{_USER.sub('', rest)}"


# Secrets of S3 hold slashes: a colon that no port follows belongs to a user, and not to a host.
_USER: Final = re.compile(r"^(?:[^/]*@|[^/:\[]+:(?!\d*(?:/|$)).*@)")
