"""What `orchtrace doctor` finds of the ways to a collector: exporters, protocols, connections."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from orchtrace_otel import exporter as exporters
from orchtrace_otel.cli._finding import Finding, broken, does_not_open
from orchtrace_otel.errors import without_password
from orchtrace_otel.provider import Signal, installed, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchtrace_otel.settings import Settings

_CONNECT_S: Final = 1.0


def endpoints(settings: Settings) -> Iterator[Finding]:
    """Look at what sends spans, log events and traces over a network, and who listens there."""
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
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module does is what is told
        advice = "correct OTEL_EXPORTER_OTLP_*"
        yield does_not_open("endpoints", f"OTLP over {protocol}", error, advice)


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
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module does is what is told
            yield broken("endpoints", variable, entry, error)
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
            yield without_password(spec), target


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
