"""Providers made here, where the host has none, as `OTEL_*` variables ask for them."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from opentelemetry.sdk.trace import TracerProvider

from orchtrace_otel._guard import warn_once
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.redirects import refuse_redirects
from orchtrace_otel.sampling import RecordOurs
from orchtrace_otel.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Signal: TypeAlias = Literal["traces", "logs"]


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
    return made, wanted + _opened("traces", settings.span_exporters)


class Counted:
    """An exporter of log events, and how many did not reach where they go.

    The official ones tell it in the log alone. It has what processors ask of an exporter,
    whatever the release of the SDK calls the class of one.

    Attributes:
        lost: Log events that it gave up.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.lost = 0
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Count anew in the child of a fork."""
        self.lost = 0

    def export(self, batch: Sequence[Any]) -> Any:
        """Export log events, and count them where that fails."""
        delivered = False
        try:
            result = self._exporter.export(batch)
            delivered = result.name == "SUCCESS"
        finally:  # some releases raise, of which the SDK's processor tells
            self.lost += 0 if delivered else len(batch)
        return result

    def shutdown(self) -> None:
        """Let go of the destination."""
        self._exporter.shutdown()


class LogEvents(NamedTuple):
    """A provider of log events that was made here, and what it exports to."""

    provider: LoggerProvider
    exporters: list[Counted]


def log_events(settings: Settings) -> LogEvents | None:
    """Make a provider of log events for rewards; None where the environment asks for none.

    Raises:
        ConfigError: If the SDK refuses what a variable holds, or an exporter does not open.
    """
    exporters = [Counted(one) for one in _opened("logs", settings.log_exporters)]
    if not exporters:
        return None
    # Slow to import, and few ask for it.
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415

    made = LoggerProvider(shutdown_on_exit=False)
    for exporter in exporters:
        try:
            made.add_log_record_processor(BatchLogRecordProcessor(cast("Any", exporter)))
        except ValueError as error:
            raise refused(error) from error
    return LogEvents(made, exporters)


def _made(meter_provider: MeterProvider | None) -> TracerProvider:
    # Releases of the SDK that keep no metrics of their own take no such argument.
    keeps_metrics = "meter_provider" in signature(TracerProvider).parameters
    options: dict[str, Any] = {"meter_provider": meter_provider} if keeps_metrics else {}
    try:
        return TracerProvider(**options)
    except ValueError as error:
        raise refused(error) from error


def refused(error: ValueError) -> ConfigError:
    """Return what to raise where the SDK does not take what a variable holds."""
    return ConfigError(f"OpenTelemetry refuses its environment: {error}; correct or unset it")


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


def installed(signal: Signal) -> dict[str, EntryPoint]:
    """Return the exporters of spans or of log events that are there, by the SDK's names."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, rarely needed

    group = f"opentelemetry_{signal}_exporter"
    return {entry.name: entry for entry in entry_points(group=group)}


def variable_of(signal: Signal) -> str:
    """Return the variable that names exporters.

    Example:
        >>> variable_of("logs")
        'OTEL_LOGS_EXPORTER'
    """
    return f"OTEL_{signal.upper()}_EXPORTER"


def _opened(signal: Signal, names: Sequence[str]) -> list[Any]:
    """Open exporters that the SDK finds by their names too; without those that are not there."""
    found = installed(signal) if names else {}
    return [
        _open(variable_of(signal), found[name]) for name in names if _is_there(signal, name, found)
    ]


def _is_there(signal: Signal, name: str, found: Mapping[str, EntryPoint]) -> bool:
    """Whether an exporter is installed; says once where it is not."""
    if name not in found:
        variable = variable_of(signal)
        warn_once(
            f"{variable}:{name}",
            "%s must name exporters of %s that are installed (%s), got %r; it is left out",
            variable,
            {"traces": "spans", "logs": "log events"}[signal],
            ", ".join(sorted(found)),
            name,
        )
    return name in found


def _open(variable: str, entry: EntryPoint) -> Any:
    try:
        exporter = entry.load()()
    except Exception as error:
        msg = (
            f"{variable} must name exporters that open, got {entry.name!r} "
            f"({type(error).__name__}); `orchtrace doctor` says more, or leave it out"
        )
        raise ConfigError(msg) from error
    refuse_redirects(exporter)
    return exporter
