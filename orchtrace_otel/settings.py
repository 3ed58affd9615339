"""The one reader of the environment: frozen settings, read when we are configured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from orchtrace_otel.errors import ConfigError

_PREFIX: Final = "ORCHTRACE_"
CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
NO_CONTENT: Final = "NO_CONTENT"
CAPTURE_MODES: Final = (NO_CONTENT, "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    Attributes:
        exporters: Names and targets of exporters, from `ORCHTRACE_EXPORTERS`
            (comma-separated, such as `jsonl:traces/`).
        capture: One of `CAPTURE_MODES`.
        key: Key for hashes of content, from `ORCHTRACE_KEY`.
        store: Folder or URL of the content store, from `ORCHTRACE_STORE`.
        max_open_runs: Runs that may be open at once (`ORCHTRACE_MAX_OPEN_RUNS`).
        max_spans: Spans kept of one run (`ORCHTRACE_MAX_SPANS`).
        max_run_seconds: Age at which an open run is given up (`ORCHTRACE_MAX_RUN_SECONDS`).
        queue_size: Finished traces that may wait for the exporters
            (`ORCHTRACE_QUEUE_SIZE`).
        sdk_disabled: Whether `OTEL_SDK_DISABLED` is true.
        otlp_wanted: Whether an `OTEL_` variable asks for an OTLP exporter of spans.
        otlp_protocol: `grpc` or `http/protobuf`, from `OTEL_EXPORTER_OTLP_PROTOCOL`.
        span_exporters: Others of spans that `OTEL_TRACES_EXPORTER` asks for, by name.
        log_exporters: Those of log events that `OTEL_LOGS_EXPORTER` asks for, by name; `otlp`
            is the one that speaks the protocol.
        otel: Every `OTEL_` variable, for reports.
    """

    exporters: tuple[str, ...] = ()
    capture: str = NO_CONTENT
    key: str | None = None
    store: str | None = None
    max_open_runs: int = 1_000
    max_spans: int = 100_000
    max_run_seconds: int = 86_400
    queue_size: int = 1_000
    sdk_disabled: bool = False
    otlp_wanted: bool = False
    otlp_protocol: str = "http/protobuf"
    span_exporters: tuple[str, ...] = ()
    log_exporters: tuple[str, ...] = ()
    otel: Mapping[str, str] | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the environment.

        Raises:
            ConfigError: If a variable does not hold what it must.

        Example:
            >>> Settings.from_env({"ORCHTRACE_EXPORTERS": "jsonl:traces/"}).exporters
            ('jsonl:traces/',)
        """
        env = os.environ if environ is None else environ
        capture = env.get(CAPTURE_VARIABLE, "").strip().upper() or NO_CONTENT
        if capture not in CAPTURE_MODES:
            # The conventions say: anything unknown means that nothing is captured.
            capture = NO_CONTENT
        return cls(
            exporters=_list(env.get("ORCHTRACE_EXPORTERS", "")),
            capture=capture,
            key=env.get("ORCHTRACE_KEY") or None,
            store=env.get("ORCHTRACE_STORE") or None,
            max_open_runs=_positive(env, "ORCHTRACE_MAX_OPEN_RUNS"),
            max_spans=_positive(env, "ORCHTRACE_MAX_SPANS"),
            max_run_seconds=_positive(env, "ORCHTRACE_MAX_RUN_SECONDS"),
            queue_size=_positive(env, "ORCHTRACE_QUEUE_SIZE"),
            sdk_disabled=env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true",
            otlp_wanted=_otlp_wanted(env),
            otlp_protocol=_otlp_protocol(env),
            span_exporters=tuple(name for name in _chosen(env) if name not in _KNOWN),
            log_exporters=_log_exporters(env),
            otel={name: value for name, value in env.items() if name.startswith("OTEL_")},
        )

    @property
    def otlp_endpoint(self) -> tuple[str, str] | None:
        """The variable that says where OTLP goes, and what it says; None where none does.

        Example:
            >>> Settings(otel={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318"}).otlp_endpoint
            ('OTEL_EXPORTER_OTLP_ENDPOINT', 'http://here:4318')
        """
        otel = self.otel or {}
        said = ((name, otel.get(name, "").strip()) for name in _ENDPOINTS)
        return next((one for one in said if one[1]), None)

    @property
    def endpoint_lacks_scheme(self) -> bool:
        """Whether OTLP over HTTP has an endpoint that it cannot send to: gRPC takes a bare host."""
        endpoint = self.otlp_endpoint
        if self.otlp_protocol == "grpc" or endpoint is None:
            return False
        return not endpoint[1].lower().startswith(("http://", "https://"))


_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The first one that says something counts."""

# A slotted dataclass hides its defaults from the class.
_DEFAULTS: Final = Settings()


_OURS: Final = (
    "EXPORTERS",
    "KEY",
    "STORE",
    "MAX_OPEN_RUNS",
    "MAX_SPANS",
    "MAX_RUN_SECONDS",
    "QUEUE_SIZE",
)
_ALIKE: Final = 0.75


def misspelled(
    options: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return variables that are read by nobody, beside those that they nearly are.

    Variables that exporters read are theirs, and not looked at.

    Args:
        options: Variables of adapters' options.
        environ: The environment; that of the process unless given.

    Example:
        >>> misspelled(environ={"ORCHTRACE_EXPORTER": "jsonl:traces/", "ORCHTRACE_HTTP_TOKEN": "x"})
        {'ORCHTRACE_EXPORTER': 'ORCHTRACE_EXPORTERS'}
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for reports alone

    read = [*_OURS, *(variable.removeprefix(_PREFIX) for variable in options)]
    found: dict[str, str] = {}
    for name in os.environ if environ is None else environ:
        own = name.removeprefix(_PREFIX)
        if own == name or own in read:
            continue
        meant = get_close_matches(own, read, 1, _ALIKE)
        if meant:
            found[name] = _PREFIX + meant[0]
    return found


def option_variable(adapter: str, name: str) -> str:
    """Return the variable that chooses an option of an adapter.

    Example:
        >>> option_variable("autogen", "telemetry")
        'ORCHTRACE_AUTOGEN_TELEMETRY'
    """
    return f"{_PREFIX}{adapter}_{name}".upper()


def option(
    adapter: str, name: str, choices: Sequence[str], environ: Mapping[str, str] | None = None
) -> str:
    """Return what `ORCHTRACE_<ADAPTER>_<NAME>` chooses; the first of `choices` unless set.

    Raises:
        ConfigError: If it holds anything else.

    Example:
        >>> option("autogen", "telemetry", ["reuse", "quiet"], {})
        'reuse'
    """
    variable = option_variable(adapter, name)
    env = os.environ if environ is None else environ
    chosen = env.get(variable, "").strip().lower() or choices[0]
    if chosen not in choices:
        known = ", ".join(choices)
        msg = f"{variable} must be one of {known}, got {chosen!r}; unset it for {choices[0]!r}"
        raise ConfigError(msg)
    return chosen


def text(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return what `ORCHTRACE_<NAME>` holds; None where it is unset or empty.

    Example:
        >>> text("HTTP_SPOOL", {"ORCHTRACE_HTTP_SPOOL": "spool/"})
        'spool/'
    """
    env = os.environ if environ is None else environ
    return env.get(f"ORCHTRACE_{name}", "").strip() or None


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _positive(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "").strip()
    if not text:
        field = name.removeprefix("ORCHTRACE_").lower()
        return int(getattr(_DEFAULTS, field))
    if not text.isdecimal() or int(text) == 0:
        msg = f"{name} must be a whole number above 0, got {text!r}; unset it for the default"
        raise ConfigError(msg)
    return int(text)


_OTLP: Final = {"otlp": "", "otlp_proto_http": "http/protobuf", "otlp_proto_grpc": "grpc"}
"""Names of the official exporters in `OTEL_TRACES_EXPORTER`, and what they alone speak."""
_KNOWN: Final = frozenset({*_OTLP, "none"})


def _chosen(env: Mapping[str, str]) -> tuple[str, ...]:
    return _list(env.get("OTEL_TRACES_EXPORTER", ""))


def _otlp_wanted(env: Mapping[str, str]) -> bool:
    chosen = _chosen(env)
    if chosen:
        return any(name in _OTLP for name in chosen)
    return any(env.get(name, "").strip() for name in _ENDPOINTS)


def _otlp_protocol(env: Mapping[str, str]) -> str:
    named = next((_OTLP[name] for name in _chosen(env) if _OTLP.get(name)), None)
    return named or _protocol(env, "TRACES")


def _protocol(env: Mapping[str, str], signal: str) -> str:
    return (
        env.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "").strip()
        or env.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
        or "http/protobuf"
    )


def _log_exporters(env: Mapping[str, str]) -> tuple[str, ...]:
    spoken = "otlp_proto_grpc" if _protocol(env, "LOGS") == "grpc" else "otlp_proto_http"
    names = _list(env.get("OTEL_LOGS_EXPORTER", ""))
    return tuple(spoken if name == "otlp" else name for name in names if name != "none")
