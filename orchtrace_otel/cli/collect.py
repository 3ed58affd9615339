"""`orchtrace collect`: receive OTLP and write whole runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from orchtrace_otel.cli._console import tell
from orchtrace_otel.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from orchtrace_otel.collect.server import Options

_HOW_TO_INSTALL: Final = (
    "collecting needs grpcio, uvicorn, starlette and opentelemetry-proto; "
    "run: pip install 'orchtrace-otel[collect]'"
)
_NONE: Final = "none"
_MIB: Final = 2**20


@click.command("collect", short_help="Receive OTLP and write whole runs into a folder.")
@click.option("--store", required=True, type=click.Path(path_type=Path), help="Folder of the runs.")
@click.option("--http", default="127.0.0.1:4318", metavar="HOST:PORT", show_default=True)
@click.option("--grpc", default="127.0.0.1:4317", metavar="HOST:PORT", show_default=True)
@click.option(
    "--tables", default="jsonl", show_default=True, help="Exporter that writes the store."
)
@click.option(
    "--fsync",
    type=click.Choice(["always", "batch", "never"]),
    default="batch",
    show_default=True,
    help="Wait for the disk before each answer, once a second, or never.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the bearer token that senders must have.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--grace", default=10.0, show_default=True, help="Seconds from a root to its run's end."
)
@click.option("--idle", default=600.0, show_default=True, help="Seconds of silence that end a run.")
@click.option("--keep-hours", default=24.0, show_default=True, help="For spans of stored runs.")
@click.option("--keep-mib", default=2048, show_default=True, help="Likewise, in all.")
@click.option("--max-request-mib", default=32, show_default=True, help="Of one request, unpacked.")
@click.option("--max-open-runs", default=20_000, show_default=True)
@click.option(
    "--max-open-mib", default=288, show_default=True, help="Spans of open runs in memory."
)
@click.option("--max-spans", default=100_000, show_default=True, help="Spans of one OTel trace.")
def command(**given: Any) -> int:
    """Receive OTLP over HTTP and gRPC, and write each run once it is whole.

    An address may be `none`, for a way in that is not wanted. SIGTERM finishes what was
    taken and ends; runs that are open then go on at the next start. What was acknowledged
    survives a kill.
    """
    try:
        from orchtrace_otel.collect.server import serve  # noqa: PLC0415 - needs the extra

        options = _options(given)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(_HOW_TO_INSTALL) from error
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)

    def listening(http: tuple[str, int] | None, grpc: tuple[str, int] | None) -> None:
        scheme = "http" if options.certificate is None else "https"
        where = [f"{scheme}://{http[0]}:{http[1]}"] if http else []
        where += [f"grpc://{grpc[0]}:{grpc[1]}"] if grpc else []
        tell(f"collecting on {' and '.join(where)} into {options.store}")

    asyncio.run(serve(options, listening))
    return 0


def _options(given: dict[str, Any]) -> Options:
    from orchtrace_otel.collect.admission import Bounds  # noqa: PLC0415 - needs the extra
    from orchtrace_otel.collect.runs import Closing  # noqa: PLC0415
    from orchtrace_otel.collect.server import Options  # noqa: PLC0415

    return Options(
        store=given["store"],
        http=_address("--http", given["http"]),
        grpc=_address("--grpc", given["grpc"]),
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
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        msg = f"--token-file must hold a token, got an empty {str(file)!r}"
        raise ConfigError(msg)
    return token
