"""`orchtrace demo`: teams that run offline, traced, scored and written to a file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from rich.text import Text

import orchtrace_otel as orchtrace
from orchtrace_otel import adapter as adapters
from orchtrace_otel.cli._console import (
    clean,
    console,
    out,
    print_error,
    print_note,
    tell,
    tell_text,
)
from orchtrace_otel.cli._endpoints import cannot_connect
from orchtrace_otel.cli._files import Target
from orchtrace_otel.cli._summary import summarise, table
from orchtrace_otel.errors import ConfigError, MissingDependencyError, without_password
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchtrace_otel.model import Reward, Trace

_GRPC_PORT: Final = 4317


class _Collected:
    """Keeps the traces of the demo for its table."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []

    def export(self, trace: Trace) -> None:
        self.traces.append(trace)

    def amend(self, run_id: str, reward: Reward) -> None:
        """Take nothing: the demo gives no late rewards."""

    def flush(self, timeout_s: float) -> None:
        """Have nothing to put down."""

    def shutdown(self) -> None:
        """Have nothing to let go of."""


@click.command("demo", short_help="Run teams offline: traced, scored, written to a file.")
@click.option(
    "--out",
    "folder",
    default="orchtrace-data",
    show_default=True,
    type=Target(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where traces.jsonl is written; a second demo appends.",
)
@click.option(
    "--otlp",
    "url",
    metavar="URL",
    help="A collector that gets the spans too, such as http://localhost:4318 "
    "(gRPC on port 4317, or where OTEL_EXPORTER_OTLP_PROTOCOL says so).",
)
def command(folder: Path, *, url: str | None) -> int:
    """Run a team on each framework that orchtrace knows, and a team of plain functions.

    Their models are scripted: no network, no key, and the same result each time. A
    framework that is not installed is left out, with the line that installs it.
    """
    collected = _Collected()
    file = folder / "traces.jsonl"
    provider, code = _set_up(folder, url, collected)
    before = _count_lines(file)
    print_note("Running teams offline, on scripted models ...")
    for name, left_out in _run_all():
        if left_out is not None:
            print_note(f"{name} is left out: {left_out}")
    orchtrace.flush()
    lost = dict(orchtrace.losses())
    orchtrace.shutdown()
    provider.shutdown()
    rows = [summarise(trace, before + n) for n, trace in enumerate(collected.traces, 1)]
    out(*table(rows, console().width), "")
    if lost:
        told = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(lost.items()))
        print_error(f"not everything was written, or sent: {told}")
        return 1
    _say_where(file, before + 1, None if code else url)
    return code


def _set_up(folder: Path, url: str | None, collected: _Collected) -> tuple[TracerProvider, int]:
    settings = Settings.from_env()
    if settings.sdk_disabled:
        msg = "the demo needs OpenTelemetry, but OTEL_SDK_DISABLED is true; unset it"
        raise ConfigError(msg)
    # A sampler or an exporter that the environment names is for applications.
    provider = TracerProvider(sampler=ALWAYS_ON)
    code = 0
    if url is not None:
        if urlsplit(url).port == _GRPC_PORT or settings.otlp_protocol == "grpc":
            exporter = open_exporter(f"otlp-grpc:{url}")
        else:
            exporter = open_exporter(f"otlp:{url}")
        why_not = cannot_connect(url)
        if why_not is None:
            provider.add_span_processor(BatchSpanProcessor(exporter))
        else:
            exporter.shutdown()
            print_error(f"{without_password(url)}: {why_not}; the demo goes on without it")
            code = 1
    otel_trace.set_tracer_provider(provider)
    files = open_exporter(f"jsonl:{folder / 'traces.jsonl'}")
    orchtrace.configure(tracer_provider=provider, exporters=[files, collected])
    return provider, code


def _run_all() -> Iterator[tuple[str, str | None]]:
    """Run each adapter's team and the plain one; say what was left out and why."""
    for name in sorted(adapters.registered()):
        try:
            adapter = adapters.load(name)
        except MissingDependencyError as error:
            yield name, str(error)
            continue
        with orchtrace.instrument(name):
            adapter.demo()
        yield name, None
    # Imported last: its decorators belong to this process alone.
    from orchtrace_otel.cli import _plain_team  # noqa: PLC0415

    _plain_team.run()
    yield "python", None


def _count_lines(file: Path) -> int:
    if not file.exists():
        return 0
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _say_where(file: Path, first: int, url: str | None) -> None:
    tell(f"Written to {file}. Where to look next:")
    typed = quote(str(file))
    verbs = f"show {typed} --run {first}", f"rewards {typed}", f"validate {typed}", "doctor"
    for verb in verbs:
        tell_text(Text.assemble("  ", (clean(f"orchtrace {verb}", longest=None), "bold")))
    if url is not None:
        tell(f"The spans went to {without_password(url)} as well.")
