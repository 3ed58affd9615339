"""What messages show of what came."""

from __future__ import annotations

import pytest

from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.errors import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:pw@host:1/a/b?token=x", "https://host:1/a/b"),
        ("http://host?token=x", "http://host"),
        ("http://host?to=http://me:pw@other/", "http://host"),
        ("simplecache::s3://key:secret@bucket/a", "simplecache::s3://bucket/a"),
        ("s3://key:sec/ret@bucket/a", "s3://bucket/a"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("http://host:1/a@b", "http://host:1/a@b"),
        ("http://[::1]:1/a@b", "http://[::1]:1/a@b"),
        ("host:1", "host:1"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    """A report can be sent to others; a secret of S3 holds slashes, and paths hold @."""
    assert without_password(url) == shown


def test_a_store_behind_a_chain_of_file_systems_shows_no_password() -> None:
    """Its name stands in warnings."""
    pytest.importorskip("fsspec")
    assert repr(open_folder("simplecache::memory://key:secret@place/a")) == (
        "simplecache::memory://place/a"
    )
