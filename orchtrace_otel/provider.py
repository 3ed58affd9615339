"""A tracer provider made here, where the host has none, as `OTEL_*` variables ask for it."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import TracerProvider

from orchtrace_otel._guard import warn_once
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.sampling import RecordOurs
from orchtrace_otel.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace.export import SpanExporter

GROUP: Final = "opentelemetry_traces_exporter"
"""Where the SDK looks for exporters by the names of `OTEL_TRACES_EXPORTER`."""


def made_here(
    settings: Settings, meter_provider: MeterProvider | None
) -> tuple[TracerProvider, list[SpanExporter]]:
    """Make a provider, and the exporters of spans that the environment asks for.

    Args:
        settings: The environment.
        meter_provider: For the SDK's own metrics, where it has any.

    Raises:
        ConfigError: If the SDK refuses what a variable holds, or an exporter does not open.
        MissingDependencyError: If OTLP is asked for and its exporter is not installed.
    """
    made = _made(meter_provider)
    made.sampler = RecordOurs(made.sampler)
    wanted = [open_exporter(_otlp(settings))] if settings.otlp_wanted else []
    wanted += [one for name in settings.span_exporters if (one := _installed(name)) is not None]
    return made, wanted


def _made(meter_provider: MeterProvider | None) -> TracerProvider:
    # Releases of the SDK that keep no metrics of their own take no such argument.
    keeps_metrics = "meter_provider" in signature(TracerProvider).parameters
    options: dict[str, Any] = {"meter_provider": meter_provider} if keeps_metrics else {}
    try:
        return TracerProvider(**options)
    except ValueError as error:
        msg = f"OpenTelemetry refuses its environment: {error}; correct or unset it"
        raise ConfigError(msg) from error


def _otlp(settings: Settings) -> str:
    """Return which exporter of OTLP the environment asks for; says once what is wrong there."""
    protocol = settings.otlp_protocol
    if protocol == "grpc":
        return "otlp-grpc:"
    if protocol != "http/protobuf":
        warn_once(
            "otlp_protocol",
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, got %r; "
            "http/protobuf is spoken",
            protocol,
        )
    if settings.endpoint_lacks_scheme and settings.otlp_endpoint is not None:
        name, _ = settings.otlp_endpoint
        warn_once(
            name,
            "%s must begin with http:// or https://, got one that does not: no span will arrive",
            name,
        )
    return "otlp:"


def span_exporters() -> dict[str, EntryPoint]:
    """Return the exporters of spans that are installed, by the names that the SDK gives them."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, rarely needed

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _installed(name: str) -> Any:
    """Return an exporter of spans that the SDK finds by its name too; None where there is none."""
    found = span_exporters()
    if name in found:
        try:
            return found[name].load()()
        except Exception as error:
            msg = (
                f"OTEL_TRACES_EXPORTER must name exporters that open, got {name!r} "
                f"({type(error).__name__}); `orchtrace doctor` says more, or leave it out"
            )
            raise ConfigError(msg) from error
    warn_once(
        f"span_exporter:{name}",
        "OTEL_TRACES_EXPORTER must name exporters of spans that are installed (%s), got %r; "
        "it is left out",
        ", ".join(sorted(found)),
        name,
    )
    return None
