"""What is wrong with a command is told in a line, before anything listens."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.collecting import Collecting
from tests.e2e.collect.sending import TLS


def collect(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command until it gives up."""
    return subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", "collect", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "4318"], "--http must be HOST:PORT"),
        (["--grpc", "127.0.0.1:99999"], "--grpc must be HOST:PORT"),
        (["--http", "none", "--grpc", "none"], "one of --http and --grpc must be HOST:PORT"),
        (["--http", "nowhere.invalid:4318"], "--http must be an address to listen on"),
        (["--grpc", "nowhere.invalid:4317"], "--grpc must be an address to listen on"),
        (["--tls-cert", str(TLS / "loopback.crt")], "TLS needs a certificate and its key"),
        (["--tables", "nowhere"], "--tables must name an exporter that writes traces into a"),
        (["--tables", "otlp"], "as jsonl and parquet do, got 'otlp' (otlp: takes an http://"),
        (["--max-spans", "0"], "0 is not in the range x>=1"),
        (["--grace", "-1"], "-1.0 is not in the range x>=0"),
        (["--idle", "nan"], "Invalid value for '--idle': nan is no number"),
    ],
)
def test_wrong_usage_is_told_in_a_line(options: list[str], said: str, tmp_path: Path) -> None:
    """Exit code 2, as of every verb."""
    done = collect("--store", str(tmp_path), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "bytes that are no ASCII"),
        (b" \n", "with nothing"),
        (b"one\ntwo\n", "with more than one line"),
    ],
)
def test_a_file_without_a_token_is_told_in_a_line(
    content: bytes, said: str, tmp_path: Path
) -> None:
    """No sender could have that token, or all would."""
    (tmp_path / "token").write_bytes(content)
    done = collect("--store", str(tmp_path), "--token-file", str(tmp_path / "token"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--token-file must" in done.stderr
    assert said in done.stderr


def test_a_store_that_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", Path("/proc/nothing")):
        done = collect("--store", str(store), "--http", "127.0.0.1:0", "--grpc", "none")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "--store must be a folder to write" in done.stderr


@pytest.mark.parametrize("store", ["s3://bucket/runs", ""])
def test_a_store_that_is_no_folder_of_this_machine_is_told_in_a_line(store: str) -> None:
    """A folder `s3:` was made here, and filled; nothing, as of an unset variable, was here."""
    done = collect("--store", store, "--http", "127.0.0.1:0", "--grpc", "none")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: --store must be a folder of this machine, got {store!r}; collect into "
        "one, then `orchtrace convert` from there\n",
    )


def test_addresses_of_the_sixth_version_are_told_as_urls(tmp_path: Path) -> None:
    """What is printed can be given to an exporter; one way in is enough."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "orchtrace_otel.cli", "collect", "--store", tmp_path),
            *("--http", "[::1]:0", "--grpc", "none"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        assert url.startswith("http://[::1]:")
        assert httpx.get(f"{url}/readyz").text == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has one version alone")
def test_all_addresses_are_those_of_both_versions_over_http_as_over_grpc(tmp_path: Path) -> None:
    """`[::]` took the sixth version alone over HTTP."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "orchtrace_otel.cli", "collect", "--store", tmp_path),
            *("--http", "[::]:0", "--grpc", "[::]:0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ports = re.findall(r"\[::\]:(\d+)", process.stdout.readline())
        assert len(ports) == 2
        for port in ports:
            for host in ("127.0.0.1", "::1"):
                socket.create_connection((host, int(port)), 10).close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_an_address_in_use_is_told_in_a_line(
    way: str, collector: Collecting, tmp_path: Path
) -> None:
    """Nothing is left running by who could not listen."""
    taken = collector.http_port if way == "http" else collector.grpc_port
    done = collect(
        "--store",
        str(tmp_path),
        "--http",
        "none",
        "--grpc",
        "none",
        f"--{way}",
        f"127.0.0.1:{taken}",
    )
    assert done.returncode == 2
    assert f"--{way} must be an address to listen on" in done.stderr
    assert done.stderr.endswith("; give another one, or none\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("absent", ["grpc", "uvicorn", "starlette", "opentelemetry.proto"])
def test_without_its_extra_the_verb_says_how_to_get_it(absent: str, tmp_path: Path) -> None:
    """The line that installs it, and exit code 2."""
    hide = f"import sys; sys.modules[{absent!r}] = None"
    code = f"{hide}; from orchtrace_otel.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "collect", "--store", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("run: pip install 'orchtrace-otel[collect]'")


def test_a_store_in_use_is_told_in_a_line(collector: Collecting) -> None:
    """Two collectors would write one spool."""
    done = collect("--store", str(collector.store), "--http", "127.0.0.1:0", "--grpc", "none")
    assert done.returncode == 2
    assert "where another runs" in done.stderr


def test_an_index_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "index.sqlite").write_text("no index, whatever its name says\n" * 99)
    done = collect("--store", str(tmp_path), "--http", "127.0.0.1:0", "--grpc", "none")
    assert done.returncode == 2
    assert "index.sqlite may be removed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("part", ["spool", "index.sqlite", "archive.sqlite"])
def test_a_part_of_the_store_that_cannot_be_made_is_told_in_a_line(
    part: str, tmp_path: Path
) -> None:
    """As on a full disk, where no word of removing the index helps."""
    if part == "spool":
        (tmp_path / part).touch()
    else:
        (tmp_path / part).mkdir()
    done = collect("--store", str(tmp_path), "--http", "127.0.0.1:0", "--grpc", "none")
    assert done.returncode == 2
    assert f"--store must be a folder to write, got {str(tmp_path)!r} (" in done.stderr
    assert "may be removed" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_certificate_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    for off in ("--http", "--grpc"):
        options = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", off, "none")
        done = collect("--store", str(tmp_path), *options, "--tls-cert", bad, "--tls-key", bad)
        assert done.returncode == 2
        assert "--tls-cert and --tls-key must be a certificate and its key" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_key_with_a_password_is_told_in_a_line(tmp_path: Path) -> None:
    """It was asked for at the terminal, twice, and gRPC cannot take one."""
    options = ("--http", "127.0.0.1:0", "--grpc", "none", "--tls-cert", str(TLS / "loopback.crt"))
    done = collect("--store", str(tmp_path), *options, "--tls-key", str(TLS / "encrypted.key"))
    assert done.returncode == 2
    assert "--tls-key must be a key without a password" in done.stderr
    assert "pass phrase" not in done.stderr
    assert "Traceback" not in done.stderr
