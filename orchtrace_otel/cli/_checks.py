"""What `orchtrace doctor` looks at; each check yields what it found and what to do.

No check changes anything but that configured exporters are opened, as an application
would open them, and that their collectors are asked for a connection.
"""

from __future__ import annotations

import platform
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from orchtrace_otel import adapter as adapters
from orchtrace_otel import exporter as exporters
from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.content.notes import complaints
from orchtrace_otel.errors import MissingDependencyError, OrchtraceError
from orchtrace_otel.provider import Signal, installed, variable_of
from orchtrace_otel.settings import CAPTURE_MODES, CAPTURE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from orchtrace_otel.settings import Settings

Level: TypeAlias = Literal["ok", "note", "wrong"]

_OLDEST_PYTHON: Final = (3, 11)
_FIRST_PYTHON_UNTRIED: Final = (3, 14)
_LIBRARIES: Final = (
    "orchtrace-otel",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-semantic-conventions",
    "opentelemetry-instrumentation",
)
_CONNECT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: Which part of the report it belongs to.
        level: `ok`, `note` (worth knowing) or `wrong` (costs data or stops work).
        name: What was looked at.
        found: What was found.
        advice: What to do; empty where there is nothing to do.
    """

    topic: str
    level: Level
    name: str
    found: str
    advice: str = ""


def what_is_installed() -> Iterator[Finding]:
    """Look at versions and at the frameworks."""
    yield from _versions()
    yield from _adapters()


def what_is_configured(settings: Settings) -> Iterator[Finding]:
    """Look at what the environment says."""
    yield from _exporters(settings)
    yield from _endpoints(settings)
    yield from _limits(settings.otel or {})
    yield from _sampling(settings.otel or {})
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
        return _broken("adapters", name, entry, error)
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


def _broken(topic: str, name: str, entry: EntryPoint, error: Exception) -> Finding:
    dist = entry.dist.name if entry.dist is not None else "its distribution"
    found = f"{entry.value} does not load: {type(error).__name__}: {error}"
    return Finding(topic, "wrong", name, found, f"reinstall or update {dist}")


# --- where traces go ------------------------------------------------------------------


def _exporters(settings: Settings) -> Iterator[Finding]:
    for entry in sorted(entry_points(group=exporters.GROUP), key=lambda entry: entry.name):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - see _adapter
            yield _broken("exporters", entry.name, entry, error)
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
        yield _does_not_open("exporters", spec, error, "correct ORCHTRACE_EXPORTERS")
        return
    yield Finding("exporters", "ok", spec, "opens")
    complain: Callable[[], list[str]] | None = getattr(opened, "complaints", None)
    for complaint in [] if complain is None else complain():
        advice = "make room or correct the place; what waits is sent then, what was lost is gone"
        yield Finding("exporters", "wrong", spec, complaint, advice)
    opened.shutdown()


def _does_not_open(topic: str, name: str, error: Exception, advice: str) -> Finding:
    """Say why something does not open; where a library is missing, how to install it."""
    found, _, command = str(error).partition("; run: ")
    if isinstance(error, MissingDependencyError) and command:
        advice = f"run: {command}"
    elif isinstance(error, OrchtraceError):
        found = str(error)
    else:
        found = f"{type(error).__name__}: {error}"
    return Finding(topic, "wrong", name, found, advice)


def _endpoints(settings: Settings) -> Iterator[Finding]:
    otel = settings.otel or {}
    if settings.sdk_disabled:
        found = "true: OpenTelemetry, and with it orchtrace, does nothing"
        yield Finding("endpoints", "wrong", "OTEL_SDK_DISABLED", found, "unset it")
    if settings.otlp_protocol not in {"grpc", "http/protobuf"}:
        found = f"{settings.otlp_protocol!r} is not spoken here"
        advice = "set it to http/protobuf or grpc"
        yield Finding("endpoints", "wrong", "OTEL_EXPORTER_OTLP_PROTOCOL", found, advice)
    for name in ("OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"):
        if otel.get(name) and not Path(otel[name]).is_file():
            found = f"{otel[name]!r} is no file"
            yield Finding("endpoints", "wrong", name, found, "correct the path, or unset it")
    if settings.otlp_wanted:
        yield from _otlp(settings)
    yield from _span_exporters(settings)
    yield from _log_exporters(settings)
    urls = dict(_urls(settings))
    for name, url in urls.items():
        yield _connection(name, url)
    if not (urls or settings.otlp_wanted or otel.get("OTEL_TRACES_EXPORTER", "").strip()):
        found = "no OTLP endpoint is set: spans go to no collector"
        advice = "to send them, set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"
        yield Finding("endpoints", "note", "OTLP", found, advice)


def _otlp(settings: Settings) -> Iterator[Finding]:
    """Look for the exporter that an `OTEL_` variable asks for, which is opened without a target."""
    protocol, endpoint = settings.otlp_protocol, settings.otlp_endpoint
    if settings.endpoint_lacks_scheme and endpoint is not None:
        name, url = endpoint
        came = without_password(url)
        found = f"{came} begins with neither http:// nor https://: over HTTP no span arrives"
        advice = f"give {name} a scheme, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
        yield Finding("endpoints", "wrong", name, found, advice)
    try:
        exporters.open_exporter("otlp-grpc:" if protocol == "grpc" else "otlp:").shutdown()
    except Exception as error:  # noqa: BLE001 - see _adapter
        advice = "correct OTEL_EXPORTER_OTLP_*"
        yield _does_not_open("endpoints", f"OTLP over {protocol}", error, advice)


def _span_exporters(settings: Settings) -> Iterator[Finding]:
    """Look at what `OTEL_TRACES_EXPORTER` names beside OTLP, which is asked for a connection."""
    variable = variable_of("traces")
    raw = (settings.otel or {}).get(variable, "").strip()
    if raw and not settings.otlp_wanted and not settings.span_exporters:
        found = f"{raw}: spans go to no collector"
        yield Finding("endpoints", "note", variable, found, "to send them, set it to otlp")
    yield from _named("traces", settings.span_exporters)


def _log_exporters(settings: Settings) -> Iterator[Finding]:
    """Look at what `OTEL_LOGS_EXPORTER` names: without any, late rewards reach no collector."""
    variable = variable_of("logs")
    raw = (settings.otel or {}).get(variable, "").strip()
    if settings.otlp_wanted and not raw:
        found = "not set: rewards that are recorded after their run reach no collector"
        advice = "to send them, set it to otlp, or give configure() a logger_provider"
        yield Finding("endpoints", "note", variable, found, advice)
    yield from _named("logs", settings.log_exporters)


def _named(signal: Signal, names: Sequence[str]) -> Iterator[Finding]:
    """Look whether exporters are there that the SDK finds by their names."""
    variable = variable_of(signal)
    there = installed(signal) if names else {}
    for name in names:
        entry = there.get(name)
        if entry is None:
            known = ", ".join(sorted(there)) or "none"
            found = f"{name!r} is not installed, and left out; there are: {known}"
            advice = "correct the name, or install the package that brings it"
            yield Finding("endpoints", "wrong", variable, found, advice)
            continue
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - see _adapter
            yield _broken("endpoints", variable, entry, error)
        else:
            yield Finding("endpoints", "ok", variable, f"{name} is installed, not tried")


def _urls(settings: Settings) -> Iterator[tuple[str, str]]:
    """Name each URL that spans or traces go to, by what configures it."""
    if settings.otlp_wanted and not settings.endpoint_lacks_scheme:
        port = 4317 if settings.otlp_protocol == "grpc" else 4318
        yield settings.otlp_endpoint or ("OTEL_TRACES_EXPORTER", f"http://localhost:{port}")
    for spec in settings.exporters:
        target = spec.partition(":")[2]
        if target.startswith(("http://", "https://")):
            yield spec, target


def _connection(name: str, url: str) -> Finding:
    shown = without_password(url)
    error = cannot_connect(url)
    if error is None:
        return Finding("endpoints", "ok", name, f"{shown} takes connections")
    advice = "start the collector, or correct the address"
    return Finding("endpoints", "wrong", name, f"{shown}: {error}", advice)


def cannot_connect(url: str) -> str | None:
    """Say why nothing takes a connection where `url` points; None where something does."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        return str(error)
    if not parts.hostname:
        return "no host in it"
    try:
        with closing(socket.create_connection((parts.hostname, port), _CONNECT_S)):
            return None
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def without_password(url: str) -> str:
    """Return a URL without the password and the query that it may hold."""
    scheme, mark, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


# --- what the SDK would cut or drop ---------------------------------------------------

_SMALLEST: Final = {
    "OTEL_SPAN_LINK_COUNT_LIMIT": (128, "a join of more branches loses links in backends"),
    "OTEL_ATTRIBUTE_COUNT_LIMIT": (64, "spans lose their edges and rewards"),
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": (64, "spans lose their edges and rewards"),
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": (4096, "edges and rewards are cut in the middle"),
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": (4096, "edges and rewards are cut in the middle"),
}
"""Limits of the SDK: the least that loses nothing of ours, and what less would cost."""


def _limits(otel: Mapping[str, str]) -> Iterator[Finding]:
    found_any = False
    for name, (least, cost) in _SMALLEST.items():
        text = otel.get(name, "").strip().lower()
        if not text or text == "none":
            continue
        found_any = True
        if not text.isdecimal():
            found = f"{text!r} is no number: OpenTelemetry refuses to start"
            yield Finding("limits", "wrong", name, found, "unset it")
        elif int(text) < least:
            advice = f"set it to {least} or more, or unset it"
            yield Finding("limits", "wrong", name, f"{text}: {cost}", advice)
        else:
            yield Finding("limits", "ok", name, f"{text} is enough")
    if not found_any:
        yield Finding("limits", "ok", "OTEL_*_LIMIT", "the defaults, which are enough")


_SAMPLERS: Final = {
    "always_on": False,
    "parentbased_always_on": False,
    "always_off": True,
    "parentbased_always_off": True,
}
"""Samplers that need no argument, and whether each drops everything that begins here."""


def _sampling(otel: Mapping[str, str]) -> Iterator[Finding]:
    name = "OTEL_TRACES_SAMPLER"
    sampler = otel.get(name, "").strip().lower()
    if not sampler:
        yield Finding("sampling", "ok", name, "not set: every run is kept")
    elif sampler in {"traceidratio", "parentbased_traceidratio"}:
        yield _ratio(sampler, otel.get("OTEL_TRACES_SAMPLER_ARG", ""))
    elif sampler not in _SAMPLERS:
        known = {entry.name for entry in entry_points(group="opentelemetry_traces_sampler")}
        if sampler in known:
            found, advice = f"{sampler!r} is of a plugin", "make sure that it keeps the runs"
            yield Finding("sampling", "note", name, found, advice)
        else:
            found, advice = f"{sampler!r} is no known sampler", "unset it, or set it to always_on"
            yield Finding("sampling", "wrong", name, found, advice)
    elif _SAMPLERS[sampler]:
        found = f"{sampler}: no span reaches a collector"
        yield Finding("sampling", "wrong", name, found, "unset it, or set it to always_on")
    else:
        yield Finding("sampling", "ok", name, f"{sampler}: every run is kept")


def _ratio(sampler: str, argument: str) -> Finding:
    name = "OTEL_TRACES_SAMPLER_ARG"
    try:
        ratio = float(argument or "1")
        valid = 0 <= ratio <= 1
    except ValueError:
        ratio, valid = 1.0, False
    if not valid:
        found = f"{argument!r} is no ratio: OpenTelemetry ignores or refuses it"
        return Finding("sampling", "wrong", name, found, "set it to a number from 0 to 1")
    if ratio >= 1:
        return Finding("sampling", "ok", name, f"{sampler} {ratio:g}: every run is kept")
    found = (
        f"{sampler} {ratio:g}: a collector gets {ratio:.3g} of the runs; where configure() "
        "makes the provider all are still scored and written, elsewhere the rest is lost"
    )
    advice = "for training data from every run, set it to 1"
    return Finding("sampling", "note" if ratio else "wrong", name, found, advice)


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
        return _does_not_open("content", "ORCHTRACE_STORE", error, "correct ORCHTRACE_STORE")
    found = f"{without_password(url)} has its library; whether it can be written was not tried"
    return Finding("content", "ok", "ORCHTRACE_STORE", found)


def _store(folder: Path) -> Finding:
    at = folder
    while not at.exists() and at != at.parent:
        at = at.parent
    if at.is_dir() and _can_write(at):
        return Finding("content", "ok", "ORCHTRACE_STORE", f"{folder} can be written")
    found = f"{folder} cannot be written"
    advice = "give a folder that this user may write"
    return Finding("content", "wrong", "ORCHTRACE_STORE", found, advice)


def _can_write(folder: Path) -> bool:
    import os  # noqa: PLC0415 - for this question alone; settings.py reads the environment

    return os.access(folder, os.W_OK | os.X_OK)
