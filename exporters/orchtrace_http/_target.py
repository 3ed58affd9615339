"""What stands behind `http:`, and what the environment adds: a URL, its options, headers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urldefrag, urlsplit

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import text

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB: Final = 2**20
_KIB: Final = 2**10
_FORM: Final = "http:https://host/path#spool=FOLDER"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_TEXT: Final = re.compile(r"[^\x20-\x7e]")
_OURS: Final = frozenset(
    {
        *("content-encoding", "content-length", "content-type", "host", "idempotency-key"),
        *("connection", "transfer-encoding"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where batches go, and within which bounds.

    Attributes:
        url: Where they are posted; its query is the server's.
        folder: This URL's folder in the spool.
        headers: Sent with each request; secret, so never shown.
        spool_bytes: Bytes that may lie in the spool, of all processes together.
        batch_bytes: Bytes of a batch, before it is packed, that one record alone may exceed.
        every_s: Seconds that a record waits for others before its batch is sent.
        timeout_s: Seconds that the URL may be silent.
    """

    url: str
    folder: Path
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    spool_bytes: int = 256 * _MIB
    batch_bytes: int = _MIB
    every_s: float = 1.0
    timeout_s: float = 10.0

    @property
    def shown(self) -> str:
        """The URL without path and query, which may hold a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def read_target(target: str, environ: Mapping[str, str] | None = None) -> Target:
    """Read `https://host/path?query#option=value&...`, and the environment's part.

    Raises:
        ConfigError: If either holds something else than it must; no secret is shown.
    """
    url, fragment = urldefrag(target.strip())
    url = _checked(url)
    given = dict(parse_qsl(fragment, keep_blank_values=True))
    spool = given.pop("spool", None) or text("HTTP_SPOOL", environ) or _DEFAULT_SPOOL
    numbers = {name: _number(given.pop(name, None), name) for name in _NUMBERS}
    if given:
        known = ", ".join(("spool", *_NUMBERS))
        msg = f"options of http: must be among {known}, got {', '.join(given)}; say {_FORM}"
        raise ConfigError(msg)
    return Target(
        url=url,
        folder=_folder(spool, url),
        headers=_headers(environ),
        spool_bytes=int(numbers["spool_mib"] * _MIB),
        batch_bytes=int(numbers["batch_kib"] * _KIB),
        every_s=numbers["every"],
        timeout_s=numbers["timeout"],
    )


_DEFAULT_SPOOL: Final = "~/.local/state/orchtrace/http"
_NUMBERS: Final = {"spool_mib": 256.0, "batch_kib": 1024.0, "every": 1.0, "timeout": 10.0}


def _folder(spool: str, url: str) -> Path:
    """Return the folder of one URL: what was meant for one is never sent to another."""
    try:
        base = Path(spool).expanduser().absolute()
    except RuntimeError:
        msg = "http: needs a folder for its spool, and there is no home; name one with #spool="
        raise ConfigError(msg) from None
    return base / hashlib.sha256(url.encode()).hexdigest()[:16]


def _number(given: str | None, name: str) -> float:
    if given is None:
        return _NUMBERS[name]
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", given) or float(given) == 0:
        msg = f"option {name} of http: must be a number above 0, got {given!r}"
        raise ConfigError(msg)
    return float(given)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname)
        # Reading the port is what checks it.
        is_one = is_one and (parts.port is None or parts.port > 0)
    except ValueError:
        is_one = False
        parts = urlsplit("")
    if parts.username is not None or parts.password is not None:
        msg = (
            "a URL behind http: must hold no user and no password, since it is shown in reports; "
            "put them into ORCHTRACE_HTTP_HEADERS or ORCHTRACE_HTTP_TOKEN"
        )
        raise ConfigError(msg)
    if not is_one or _NO_TEXT.search(url) or " " in url:
        came = url.partition("?")[0].rpartition("@")[2]  # it may hold a password
        hint = f"http:http:{came}" if came.startswith("//") else _FORM
        msg = f"http: takes an http:// or https:// URL, got {came!r}; say {hint}"
        raise ConfigError(msg)
    return url


def _headers(environ: Mapping[str, str] | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    for item in (text("HTTP_HEADERS", environ) or "").split(","):
        if not item.strip():
            continue
        name, equals, value = item.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if not equals or not _NAME.fullmatch(name):
            msg = "ORCHTRACE_HTTP_HEADERS must be name=value,name=value; a part of it is not"
            raise ConfigError(msg)
        if name in _OURS:
            msg = f"ORCHTRACE_HTTP_HEADERS must leave {name} to the exporter; take it out"
            raise ConfigError(msg)
        headers[name] = _sendable(value, "a value in ORCHTRACE_HTTP_HEADERS")
    token = text("HTTP_TOKEN", environ)
    if token is not None:
        if "authorization" in headers:
            msg = (
                "ORCHTRACE_HTTP_TOKEN and authorization in ORCHTRACE_HTTP_HEADERS exclude each "
                "other; unset one"
            )
            raise ConfigError(msg)
        headers["authorization"] = f"Bearer {_sendable(token, 'ORCHTRACE_HTTP_TOKEN')}"
    return headers


def _sendable(value: str, what: str) -> str:
    if _NO_TEXT.search(value):
        msg = f"{what} must be printable ASCII, and is not; write other bytes as the server wants"
        raise ConfigError(msg)
    return value
