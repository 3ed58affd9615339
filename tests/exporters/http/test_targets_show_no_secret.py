"""Targets and headers are read as they should be; what is wrong is told, and no secret with it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_http import open_http
from orchtrace_http._target import read_target
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.pushing import exporter_to
from tests.exporters.http.receiver import Receiver


def test_headers_come_from_the_environment_and_are_told_nowhere(
    server: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in the log of any library at DEBUG, not in reports, files or errors."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ORCHTRACE_HTTP_TOKEN", "s3cret-token")
    monkeypatch.setenv("ORCHTRACE_HTTP_HEADERS", "x-tenant=a, x-key=s3cret%2Ckey")
    server.script.extend([(503, {}), (400, {})])
    exporter = exporter_to(f"{server.url}/s3cret-path?k=s3cret-query", tmp_path)
    exporter.export(own_traces(1)[0])
    with pytest.raises(OSError, match="records") as error:
        exporter.flush(10)
    exporter.shutdown()
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer s3cret-token"
    assert (headers["x-tenant"], headers["x-key"]) == ("a", "s3cret,key")
    ours = [one.getMessage() for one in caplog.records if one.name == "orchtrace_otel"]
    said = [str(error.value), *ours, *exporter.complaints()]
    assert "s3cret" not in "".join(said)
    assert "s3cret-token" not in caplog.text
    assert "s3cret,key" not in caplog.text
    assert "s3cret-token" not in repr(exporter.target)
    assert all(b"s3cret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "takes an http:// or https:// URL, got ''"),
        ("//host/path", "say http:http://host/path"),
        ("ftp://host", "takes an http:// or https:// URL"),
        ("https://", "takes an http:// or https:// URL"),
        ("https://host:0", "takes an http:// or https:// URL"),
        ("https://host:99999", "takes an http:// or https:// URL"),
        ("https://me:s3cret@host:99999/?k=s3cret", "takes an http:// or https:// URL, got 'host:"),
        ("https://host/a b", "takes an http:// or https:// URL"),
        ("https://me:s3cret@host", "must hold no user and no password"),
        ("https://host#spol=x", "must be among spool, spool_mib, batch_kib, every, timeout"),
        ("https://host#every=0", "option every of http: must be a number above 0, got '0'"),
        ("https://host#timeout=inf", "must be a number above 0, got 'inf'"),
    ],
)
def test_a_wrong_target_says_what_must_hold(target: str, says: str) -> None:
    """And shows no secret."""
    with pytest.raises(ConfigError) as error:
        read_target(target, {})
    assert says in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"HEADERS": "s3cret"}, "must be name=value,name=value"),
        ({"HEADERS": "a b=s3cret"}, "must be name=value,name=value"),
        ({"HEADERS": "content-type=s3cret"}, "must leave content-type to the exporter"),
        ({"HEADERS": "x=s3cret%0Ay: 1"}, "must be printable ASCII"),
        ({"TOKEN": "s3crét"}, "ORCHTRACE_HTTP_TOKEN must be printable ASCII"),
        ({"TOKEN": "s3cret", "HEADERS": "Authorization=s3cret"}, "exclude each other"),
    ],
)
def test_a_wrong_variable_says_what_must_hold(variables: dict[str, str], says: str) -> None:
    """And shows no secret."""
    environment = {f"ORCHTRACE_HTTP_{name}": value for name, value in variables.items()}
    with pytest.raises(ConfigError) as error:
        read_target("https://host", environment)
    assert says in str(error.value)
    assert "s3cr" not in str(error.value)


def orchtrace_exporter(spec: str) -> Any:
    """What a list of exporters opens."""
    from orchtrace_otel.exporter import open_exporter

    return open_exporter(spec)


def test_a_spec_names_scheme_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`http:http://host` is the exporter and its URL; `http://host` alone says how to write it."""
    monkeypatch.setenv("ORCHTRACE_HTTP_SPOOL", str(tmp_path))
    opened = orchtrace_exporter("http:http://127.0.0.1:1/x")
    assert opened.target.url == "http://127.0.0.1:1/x"
    assert opened.target.folder.parent == tmp_path
    opened.shutdown()
    assert list(tmp_path.rglob("*-*")) == []
    with pytest.raises(ConfigError, match=r"say http:http://127\.0\.0\.1:1/x"):
        orchtrace_exporter("http://127.0.0.1:1/x")


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is opened, and not before."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(orchtrace.MissingDependencyError, match=r"orchtrace-otel\[http\]"):
        open_http("https://host")
