"""The exceptions this project raises, all in set-up, in the CLI and in readers.

OrchtraceError
├── ConfigError             (ValueError)   a wrong argument or setting
├── MissingDependencyError  (ImportError)  a framework or library that was asked for by name
└── TraceFormatError        (ValueError)   a file or document that is no trace

Nothing is raised into a running host application: there `_guard` logs and counts.
Messages say what must hold, what came and what to do.
"""

from __future__ import annotations


class OrchtraceError(Exception):
    """Base of every exception of this project."""


class ConfigError(OrchtraceError, ValueError):
    """An argument or a setting does not hold what it must."""


class MissingDependencyError(OrchtraceError, ImportError):
    """Something that was asked for by name is not installed."""


class TraceFormatError(OrchtraceError, ValueError):
    """A document is not an orchestration trace."""
