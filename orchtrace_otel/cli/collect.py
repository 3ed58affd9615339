"""`orchtrace collect`: receive OTLP and write whole runs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from orchtrace_otel.cli._console import tell
from orchtrace_otel.cli._files import is_elsewhere, known
from orchtrace_otel.errors import ConfigError, MissingDependencyError, without_password

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchtrace_otel.collect.server import Options

_HOW_TO_INSTALL: Final = (
    "collecting needs grpcio, uvicorn, starlette and opentelemetry-proto; "
    "run: pip install 'orchtrace-otel[collect]'"
)
_NONE: Final = "none"
_MIB: Final = 2**20


_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_SECONDS: Final = click.FloatRange(min=0)
_AMOUNT: Final = click.IntRange(min=1)


def _bound(
    name: str, default: int, text: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(name, default=default, type=_AMOUNT, show_default=True, help=text)


@click.command("collect", short_help="Receive OTLP and write whole runs into a folder.")
@click.option("--store", required=True, metavar="DIR", help="Folder of the runs.")
@click.option(
    "--http",
    default="127.0.0.1:4318",
    metavar="HOST:PORT",
    show_default=True,
    help="Where to take OTLP over HTTP.",
)
@click.option(
    "--grpc",
    default="127.0.0.1:4317",
    metavar="HOST:PORT",
    show_default=True,
    help="Where to take OTLP over gRPC.",
)
@click.option(
    "--tables",
    default="jsonl",
    show_default=True,
    metavar="NAME",
    help="What writes the store: jsonl, parquet, or another exporter.",
)
@click.option(
    "--fsync",
    type=click.Choice(["always", "batch", "never"]),
    default="batch",
    show_default=True,
    help="Wait for the disk before each answer, once a second, or never.",
)
@click.option("--token-file", type=_FILE, help="File with the token that senders must have.")
@click.option("--tls-cert", type=_FILE, help="Certificate, for TLS on both.")
@click.option("--tls-key", type=_FILE, help="Its private key.")
@click.option(
    "--grace",
    default=10.0,
    type=_SECONDS,
    callback=known,
    show_default=True,
    help="Seconds from a run's root to its end; exporters of other processes are late.",
)
@click.option(
    "--idle",
    default=600.0,
    type=_SECONDS,
    callback=known,
    show_default=True,
    help="Seconds of silence that end a run without a root.",
)
@click.option(
    "--keep-hours",
    default=24.0,
    type=_SECONDS,
    callback=known,
    show_default=True,
    help="Hours for which stored runs take late spans.",
)
@_bound("--keep-mib", 2_048, "MiB of spans that are kept for it.")
@_bound("--max-request-mib", 32, "MiB of a request, unpacked.")
@_bound("--max-open-runs", 20_000, "OTel traces open at once; beyond it the oldest close.")
@_bound("--max-open-mib", 288, "MiB of their spans in memory; likewise.")
@_bound("--max-spans", 100_000, "Spans of an OTel trace; further ones are rejected.")
def command(**given: Any) -> int:
    """Receive OTLP over HTTP and gRPC, and write each run once it is whole.

    An address may be `none`, for a way in that is not wanted. SIGTERM finishes what was
    taken and ends; runs that are open then go on at the next start. What was acknowledged
    survives a kill.
    """
    try:
        from orchtrace_otel.collect.server import serve, shown  # noqa: PLC0415 - needs the extra

        options = _options(given)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(_HOW_TO_INSTALL) from error
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)

    def listening(http: tuple[str, int] | None, grpc: tuple[str, int] | None) -> None:
        scheme = "http" if options.certificate is None else "https"
        where = [f"{scheme}://{shown(http)}"] if http else []
        where += [f"grpc://{shown(grpc)}"] if grpc else []
        tell(f"collecting on {' and '.join(where)} into {options.store}")

    asyncio.run(serve(options, listening, _leave))
    return 0


def _leave() -> NoReturn:
    """End the process, with no more than what was printed to be written."""
    from orchtrace_otel.collect.ending import hang_up  # noqa: PLC0415 - needs the extra

    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    hang_up()
    os._exit(0)


def _options(given: dict[str, Any]) -> Options:
    from orchtrace_otel.collect.admission import Bounds  # noqa: PLC0415 - needs the extra
    from orchtrace_otel.collect.runs import Closing  # noqa: PLC0415
    from orchtrace_otel.collect.server import Options  # noqa: PLC0415

    http, grpc = (_address(f"--{way}", given[way]) for way in ("http", "grpc"))
    if http is None and grpc is None:
        msg = f"one of --http and --grpc must be HOST:PORT, got {_NONE} for both"
        raise ConfigError(msg)
    return Options(
        store=_folder(given["store"]),
        http=http,
        grpc=grpc,
        tables=given["tables"],
        fsync=given["fsync"],
        token=_token(given["token_file"]),
        certificate=given["tls_cert"],
        key=given["tls_key"],
        closing=Closing(given["grace"], given["idle"]),
        keep_s=given["keep_hours"] * 3600,
        keep_bytes=given["keep_mib"] * _MIB,
        bounds=Bounds(
            request_bytes=given["max_request_mib"] * _MIB,
            open_traces=given["max_open_runs"],
            open_bytes=given["max_open_mib"] * _MIB,
            trace_spans=given["max_spans"],
        ),
    )


def _folder(text: str) -> Path:
    if is_elsewhere(text):
        msg = (
            f"--store must be a folder of this machine, got {without_password(text)!r}; collect "
            f"into one, then `orchtrace convert` from there"
        )
        raise ConfigError(msg)
    return Path(text)


def _address(option: str, text: str) -> tuple[str, int] | None:
    if text == _NONE:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        msg = f"{option} must be HOST:PORT, or {_NONE}, got {text!r}"
        raise ConfigError(msg)
    return host.strip("[]"), int(port)


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "bytes that are no ASCII"
        msg = f"--token-file must be a file with a token to read, got {str(file)!r} ({why})"
        raise ConfigError(msg) from error
    if not token or not token.isprintable():
        came = "more than one line" if token else "nothing"
        msg = f"--token-file must hold a token in one line, got {str(file)!r} with {came}"
        raise ConfigError(msg)
    return token
