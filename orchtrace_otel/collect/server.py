"""The collector put together: from its options to a process that listens, and ends well."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import signal
import socket
import sqlite3
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, NoReturn

import uvicorn

from orchtrace_otel.collect import LOCK
from orchtrace_otel.collect import grpc as over_grpc
from orchtrace_otel.collect import http as over_http
from orchtrace_otel.collect.admission import Bounds
from orchtrace_otel.collect.archive import Archive
from orchtrace_otel.collect.builder import Builder
from orchtrace_otel.collect.closing import Closer
from orchtrace_otel.collect.ending import Server
from orchtrace_otel.collect.index import Index
from orchtrace_otel.collect.intake import Intake
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.parts import Part
from orchtrace_otel.collect.runs import Closing, OpenRuns
from orchtrace_otel.collect.spool import Fsync, Spool
from orchtrace_otel.collect.store import Store
from orchtrace_otel.collect.writing import Writer
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.own_process import collect_garbage_seldom

_logger = logging.getLogger("orchtrace_otel")

_SWITCH_S: Final = 0.001
"""How long one thread may keep the others from Python: senders wait for their answers."""

_GRACE_S: Final = 5
"""How long requests that are under way at the end may take."""

_QUIET_S: Final = 0.25
_DRAIN_S: Final = 3.0
"""How long, at the end, senders are told to come back before the ways in close: until none
came for the first of these, and for the second at most."""

_LAST_QUIET_S: Final = 0.005
"""How long nobody may have called over gRPC before it closes, `_DRAIN_S` at most."""

_KEEP_ALIVE_S: Final = 75
"""How long no request may begin on a connection: longer than exporters wait between batches."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Options:
    """What a collector is told.

    Attributes:
        store: The folder that runs go to.
        http: Where to listen for HTTP; None for nowhere. Port 0 means any.
        grpc: The same for gRPC.
        tables: Name of the exporter that writes the store.
        fsync: When to wait for the disk.
        token: The bearer token that senders must have.
        certificate: For TLS, with `key`.
        key: Its private key.
        closing: When runs close.
        keep_s: Seconds that the spans of stored runs are kept, to amend them.
        keep_bytes: Bytes of such spans.
        bounds: What is taken and kept at most.
    """

    store: Path
    http: Address | None = ("127.0.0.1", 4318)
    grpc: Address | None = ("127.0.0.1", 4317)
    tables: str = "jsonl"
    fsync: Fsync = "batch"
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    closing: Closing = field(default_factory=Closing)
    keep_s: float = 24 * 3600.0
    keep_bytes: int = 2 * 2**30
    bounds: Bounds = field(default_factory=Bounds)


def _locked(folder: Path) -> IO[bytes]:
    """Keep other collectors off a store, until the file is closed or the process ends.

    Raises:
        ConfigError: If another one has it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        msg = f"--store must be a folder of one collector, got {str(folder)!r}, where another runs"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"--store must be a folder to write, got {str(folder)!r} ({error.strerror})"
        raise ConfigError(msg) from error
    return file


class Collector:
    """Everything behind the two ways in.

    Args:
        options: What to do.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        bounds = options.bounds
        sync = options.fsync != "never"
        folder = options.store
        self._lock = _locked(folder)
        self.metrics = Metrics()
        self.store = Store(folder, options.tables, sync=sync)
        archive_path = folder / "archive.sqlite"
        self._archive = Archive(archive_path, options.keep_s, options.keep_bytes, sync=sync)
        # Asked on the thread that takes requests, beside the one that writes.
        self._stored = Index(folder / "index.sqlite", folder)
        self._kept = Archive(archive_path, options.keep_s, options.keep_bytes)
        self.spool = Spool(folder / "spool", options.fsync)
        self.runs = OpenRuns(options.closing, bounds.open_traces, bounds.open_bytes)
        self.builder = Builder(
            self.runs,
            Closer(self.store, self._archive, self.metrics),
            self._archive,
            self.spool,
            bounds,
        )
        self.writer = Writer(self.spool, self.builder.put, bounds.waiting_bytes, self.metrics)
        self.builder.taken_up = self.writer.taken_up
        self.intake = Intake(bounds, self.writer, self._refuse, self.metrics, self._faults)
        self._gauges()

    def _gauges(self) -> None:
        gauge = self.metrics.gauge
        gauge("open_traces", lambda: len(self.runs))
        gauge("open_bytes", lambda: self.runs.size)
        gauge("waiting_bytes", lambda: self.writer.waiting_bytes)
        gauge("spool_bytes", lambda: self.spool.size)
        gauge("ready", lambda: not self.intake.faults())

    def _faults(self) -> list[str]:
        return [fault for fault in (self.writer.fault, self.builder.fault) if fault is not None]

    def _refuse(self, part: Part) -> str | None:
        """Say why the spans of an OTel trace can no longer be taken."""
        trace_id = part.trace_id.hex()
        opened = self.runs.held(trace_id)
        if opened is None:
            if self._stored.of_trace(trace_id) and not self._kept.has_spans(trace_id):
                return "the run was stored long ago, and its spans are kept no longer to amend it"
            return None
        most = self._options.bounds.trace_spans
        if len(opened.marks) + len(part.marks) > most:
            return f"an OTel trace must have at most {most} spans"
        return None

    def start(self) -> None:
        """Take up what an earlier process left, and begin."""
        self.builder.replay(self.spool.replay())
        if self.spool.torn:
            self.metrics.count("failures", "torn", self.spool.torn)
            _logger.warning(
                "orchtrace collect found %d records in its spool that are not whole; "
                "a kill leaves one that nobody was told of, more mean a damaged disk",
                self.spool.torn,
            )
        self.builder.resume()
        self.builder.start()
        self.writer.start()

    def stop(self) -> None:
        """Finish what was taken; what is open stays in the spool for the next start."""
        self.intake.is_ending = True
        self.writer.stop()
        self.builder.stop()
        self.spool.close()
        for part in (self.store, self._archive, self._stored, self._kept, self._lock):
            part.close()


def _tune() -> None:
    """Set this process up for what it does: many objects at once, of which few are cyclic."""
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    collect_garbage_seldom()


def _stay() -> None:
    """Go on, for this process has more to do than to collect."""


async def serve(
    options: Options,
    listening: Callable[[Address | None, Address | None], None],
    leave: Callable[[], None] = _stay,
) -> None:
    """Collect until SIGTERM or SIGINT, then finish what was taken.

    Senders that come meanwhile are told to come back later.

    Args:
        options: What to do.
        listening: Called with the addresses of HTTP and gRPC once requests are taken.
        leave: Called when all is done but to close gRPC; it may hang up and end the process.
            A gRPC server that is closed says CANCELLED to calls that come just then, after
            which some senders do not come back; who is hung up on sees UNAVAILABLE.

    Raises:
        ConfigError: If an address cannot be listened on, or TLS is half given.
    """
    _tune()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    _check_tls(options)
    try:
        collector = Collector(options)
    except (OSError, sqlite3.OperationalError) as error:  # such as a full disk
        msg = f"--store must be a folder to write, got {str(options.store)!r} ({error})"
        raise ConfigError(msg) from error
    except sqlite3.Error as error:
        msg = (
            f"--store must hold an index and an archive that SQLite can read, got {error}; "
            "index.sqlite may be removed, it is made anew"
        )
        raise ConfigError(msg) from error
    await loop.run_in_executor(None, collector.start)
    try:
        http = None if options.http is None else _bound("--http", options.http)
        grpc = None if options.grpc is None else await _grpc(options.grpc, options, collector)
        waiting = [asyncio.create_task(ended.wait())]
        http_server = _http(options, collector)
        if http is not None:
            waiting.append(asyncio.create_task(_serve_http(http_server, http)))
        listening(None if http is None else http.getsockname()[:2], grpc and grpc[0])
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await collector.intake.drain(_QUIET_S, _DRAIN_S)
        http_server.should_exit = True
        ended.set()
        await asyncio.gather(*waiting)
    finally:
        await loop.run_in_executor(None, collector.stop)
    if grpc is not None:
        await collector.intake.drain(_LAST_QUIET_S, _DRAIN_S)
    leave()
    if grpc is not None:
        await grpc[1].stop(_GRACE_S)


async def _serve_http(server: uvicorn.Server, listener: socket.socket) -> Literal[True]:
    await server.serve(sockets=[listener])
    return True


def shown(address: Address) -> str:
    """Return an address as URLs have it.

    Example:
        >>> shown(("::1", 4318))
        '[::1]:4318'
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_tls(options: Options) -> None:
    """Look at the certificate before anything listens.

    Raises:
        ConfigError: If TLS is half given, or a file is none.
    """
    certificate, key = options.certificate, options.key
    if (certificate is None) != (key is None):
        msg = "TLS needs a certificate and its key, got one of them; give both or neither"
        raise ConfigError(msg)
    if certificate is not None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key, _no_password)
        except OSError as error:
            msg = f"--tls-cert and --tls-key must be a certificate and its key, got {error}"
            raise ConfigError(msg) from error


def _no_password() -> NoReturn:
    """Answer who asks for the password of a key; OpenSSL would ask whoever sits at the terminal."""
    msg = "--tls-key must be a key without a password, got one with it; `openssl pkey` writes it so"
    raise ConfigError(msg)


def _http(options: Options, collector: Collector) -> uvicorn.Server:
    config = uvicorn.Config(
        over_http.application(collector.intake, collector.metrics, options.token),
        log_config=None,
        access_log=False,
        lifespan="off",
        # httptools, which uvicorn prefers where it is installed, takes headers without a bound.
        http="h11",
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return Server(config, _QUIET_S)


def _bound(option: str, address: Address) -> socket.socket:
    host, port = address
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=512,
            # As gRPC does: `[::]` is every address of either version.
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        # Python names the address in it once more.
        why = str(error.strerror).partition(" (while")[0]
        msg = (
            f"{option} must be an address to listen on, got {shown(address)} ({why}); give another "
            "one, or none"
        )
        raise ConfigError(msg) from error


async def _grpc(address: Address, options: Options, collector: Collector) -> tuple[Address, Any]:
    host, port = address
    # gRPC prints why it could not and does not tell us; a socket does.
    _bound("--grpc", address).close()
    server = over_grpc.server(collector.intake, options.token)
    where = shown(address)
    try:
        if options.certificate is not None and options.key is not None:
            secure = over_grpc.credentials(options.certificate, options.key)
            port = server.add_secure_port(where, secure)
        else:
            port = server.add_insecure_port(where)
    except RuntimeError as error:
        msg = f"--grpc must be an address to listen on, got {where}"
        raise ConfigError(msg) from error
    await server.start()
    return (host, port), server
