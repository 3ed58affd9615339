"""A server on loopback that takes what is pushed, and answers as it is told to."""

from __future__ import annotations

import gzip
import http.server
import json
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Answer = tuple[int, dict[str, str]]  # status and headers

TLS = Path(__file__).parents[2] / "e2e" / "tls"


@dataclass
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it says."""
        return [json.loads(line) for line in gzip.decompress(self.body).splitlines()]


class Receiver(http.server.ThreadingHTTPServer):
    """Answers with what is scripted, then with 204; keeps what it answered 204."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.scheme = "http"
        self.script: deque[Answer] = deque()
        self.otherwise: Answer = (204, {})
        self.most_lines = 1_000_000
        self.silent = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.requests: list[Request] = []
        self.taken: list[Request] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients walk away here on purpose."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def lines(self, path: str | None = None) -> list[dict[str, Any]]:
        """What was taken, at one path or at all."""
        asked = [one for one in self.taken if path is None or one.path == path]
        return [line for one in asked for line in one.lines]

    def traces(self, path: str | None = None) -> list[dict[str, Any]]:
        """The documents of the traces that were taken."""
        return [line["trace"] for line in self.lines(path) if line["type"] == "trace"]

    def rewards(self, path: str | None = None) -> list[dict[str, Any]]:
        """The late rewards that were taken."""
        lines = [line for line in self.lines(path) if line["type"] == "reward"]
        return [{"run_id": line["run_id"], **line["reward"]} for line in lines]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        self.server.requests.append(request)
        status, answer = (
            self.server.script.popleft() if self.server.script else self.server.otherwise
        )
        if status == 204 and len(request.lines) > self.server.most_lines:
            status = 413
        self.server.silent.set()
        self.server.may_answer.wait(60)
        if status == 204:
            self.server.taken.append(request)
        self.send_response(status)
        for name, value in answer.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append(Request(self.path, {}, b""))
        self.send_error(405)

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def receiver(port: int = 0, *, tls: bool = False) -> Iterator[Receiver]:
    """Run a receiver on a free port, or on one of before."""
    with Receiver(port) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "loopback.crt", TLS / "loopback.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()
