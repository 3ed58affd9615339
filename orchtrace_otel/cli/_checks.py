"""What `orchtrace doctor` looks at; each check yields what it found and what to do.

No check changes anything but that configured exporters are opened, as an application
would open them, and that their collectors are asked for a connection.
"""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel import adapter as adapters
from orchtrace_otel import exporter as exporters
from orchtrace_otel.cli._endpoints import endpoints
from orchtrace_otel.cli._files import can_write
from orchtrace_otel.cli._finding import Finding, broken, does_not_open
from orchtrace_otel.cli._limits import limits, sampling
from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.content.notes import complaints
from orchtrace_otel.errors import ConfigError, without_password
from orchtrace_otel.settings import (
    CAPTURE_MODES,
    CAPTURE_VARIABLE,
    misspelled,
    option_variable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.metadata import EntryPoint

    from orchtrace_otel.settings import Settings

_OLDEST_PYTHON: Final = (3, 11)
_FIRST_PYTHON_UNTRIED: Final = (3, 14)
_LIBRARIES: Final = (
    "orchtrace-otel",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-semantic-conventions",
    "opentelemetry-instrumentation",
)


def what_is_installed() -> Iterator[Finding]:
    """Look at versions and at the frameworks."""
    yield from _versions()
    yield from _adapters()


def what_is_configured(settings: Settings) -> Iterator[Finding]:
    """Look at what the environment says."""
    yield from _misspelled()
    yield from _options()
    yield from _exporters(settings)
    yield from endpoints(settings)
    yield from limits(settings.otel or {})
    yield from sampling(settings.otel or {})
    yield from _content(settings)


# --- what is installed ----------------------------------------------------------------


def _versions() -> Iterator[Finding]:
    tried = _OLDEST_PYTHON <= sys.version_info < _FIRST_PYTHON_UNTRIED
    found = f"{platform.python_version()} at {sys.executable}"
    advice = "" if tried else "use Python 3.11, 3.12 or 3.13: others were not tried"
    yield Finding("versions", "ok" if tried else "wrong", "Python", found, advice)
    for name in _LIBRARIES:
        try:
            yield Finding("versions", "ok", name, version(name))
        except PackageNotFoundError:
            advice = "run: pip install orchtrace-otel"
            yield Finding("versions", "wrong", name, "not installed", advice)


def _adapters() -> Iterator[Finding]:
    for name, entry in sorted(adapters.registered().items()):
        yield _adapter(name, entry)


def _adapter(name: str, entry: EntryPoint) -> Finding:
    try:
        kind = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module does is what is told
        return broken("adapters", name, entry, error)
    wanted: Mapping[str, str] = kind.requires
    try:
        found = ", ".join(f"{dist} {version(dist)}" for dist in wanted)
    except PackageNotFoundError as error:
        advice = f"to trace it, run: pip install 'orchtrace-otel[{kind.extra}]'"
        return Finding("adapters", "note", name, f"{error.name} is not installed", advice)
    unmet = kind.unmet()
    if unmet is None:
        return Finding("adapters", "ok", name, found)
    advice = f"run: pip install 'orchtrace-otel[{kind.extra}]'"
    return Finding("adapters", "wrong", name, f"needs {unmet}", advice)


# --- variables of ours and of adapters --------------------------------------------------


def _misspelled() -> Iterator[Finding]:
    options = [option_variable(kind.name, name) for kind in _kinds() for name in kind.options]
    for name, meant in misspelled(options).items():
        yield Finding("settings", "wrong", name, "read by nobody", f"write {meant}")


def _options() -> Iterator[Finding]:
    """Tell what is chosen of adapters' options, where it is not the default."""
    for kind in _kinds():
        for name, (default, *_) in kind.options.items():
            variable = option_variable(kind.name, name)
            try:
                chosen = kind.option(name)
            except ConfigError as error:
                found, _, advice = str(error).partition("; ")
                yield Finding("settings", "wrong", variable, found, advice)
            else:
                if chosen != default:
                    yield Finding("settings", "ok", variable, f"{chosen}, where {default} is usual")


def _kinds() -> list[type[adapters.Adapter]]:
    """Return the adapters that load; `_adapter` tells of those that do not."""
    kinds: list[type[adapters.Adapter]] = []
    for _, entry in sorted(adapters.registered().items()):
        with suppress(Exception):
            kinds.append(entry.load())
    return kinds


# --- where traces go ------------------------------------------------------------------


def _exporters(settings: Settings) -> Iterator[Finding]:
    for entry in sorted(entry_points(group=exporters.GROUP), key=lambda entry: entry.name):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - see _adapter
            yield broken("exporters", entry.name, entry, error)
        else:
            # What it needs beside itself shows only when it is opened, which takes a target.
            yield Finding("exporters", "ok", entry.name, "known, not tried")
    if not settings.exporters:
        found = "ORCHTRACE_EXPORTERS is not set"
        advice = "for finished traces in files, set it to jsonl:traces/, or call configure()"
        yield Finding("exporters", "note", "configured", found, advice)
    for spec in settings.exporters:
        yield from _configured(spec)


def _configured(spec: str) -> Iterator[Finding]:
    try:
        opened: Any = exporters.open_exporter(spec)
    except Exception as error:  # noqa: BLE001 - see _adapter
        yield does_not_open(
            "exporters", without_password(spec), error, "correct ORCHTRACE_EXPORTERS"
        )
        return
    yield Finding("exporters", "ok", without_password(spec), "opens")
    complain: Callable[[], list[str]] | None = getattr(opened, "complaints", None)
    for complaint in [] if complain is None else complain():
        advice = "make room or correct the place; what waits is sent then, what was lost is gone"
        yield Finding("exporters", "wrong", without_password(spec), complaint, advice)
    opened.shutdown()


# --- content --------------------------------------------------------------------------


def _content(settings: Settings) -> Iterator[Finding]:
    raw = (settings.otel or {}).get(CAPTURE_VARIABLE, "").strip()
    if raw and raw.upper() not in CAPTURE_MODES:
        found = f"{raw!r} is no mode: nothing is captured"
        advice = f"set it to one of {', '.join(CAPTURE_MODES)}"
        yield Finding("content", "wrong", CAPTURE_VARIABLE, found, advice)
    else:
        yield _capture(settings.capture, settings.store)
    if settings.store is not None:
        yield from _kept_in(settings.store)


def _kept_in(store: str) -> Iterator[Finding]:
    if "://" in store:
        yield _remote(store)
        return
    folder = Path(store).expanduser()
    yield _store(folder)
    for complaint in complaints(folder):
        advice = (
            "make room or correct the place; what was lost is gone, so remove that file once you "
            "know it"
        )
        yield Finding("content", "wrong", "ORCHTRACE_STORE", complaint, advice)


def _capture(mode: str, store: str | None) -> Finding:
    if mode == CAPTURE_MODES[0]:
        return Finding("content", "ok", "capture", f"{mode}: no content leaves the process")
    if mode != "SPAN_ONLY" and store is None:
        found = f"{mode} keeps content in a store, and ORCHTRACE_STORE names none"
        advice = "set ORCHTRACE_STORE to a folder, or a URL that fsspec knows"
        return Finding("content", "wrong", CAPTURE_VARIABLE, found, advice)
    places = {"SPAN_ONLY": "on spans", "EVENT_ONLY": "in the store"}
    found = f"{mode}: content is captured, {places.get(mode, 'on spans and in the store')}"
    advice = "see docs/content.md for what is redacted, and for more patterns"
    return Finding("content", "note", CAPTURE_VARIABLE, found, advice)


def _remote(url: str) -> Finding:
    try:
        open_folder(url)
    except Exception as error:  # noqa: BLE001 - fsspec's libraries raise what they like
        return does_not_open("content", "ORCHTRACE_STORE", error, "correct ORCHTRACE_STORE")
    found = f"{without_password(url)} has its library; whether it can be written was not tried"
    return Finding("content", "ok", "ORCHTRACE_STORE", found)


def _store(folder: Path) -> Finding:
    at = folder
    while not at.exists() and at != at.parent:
        at = at.parent
    if at.is_dir() and can_write(at):
        return Finding("content", "ok", "ORCHTRACE_STORE", f"{folder} can be written")
    found = f"{folder} cannot be written"
    advice = "give a folder that this user may write"
    return Finding("content", "wrong", "ORCHTRACE_STORE", found, advice)
