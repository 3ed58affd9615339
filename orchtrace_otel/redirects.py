"""Redirects, which official exporters over HTTP take for success.

They do not follow one, or follow it with a GET that sends nothing: all is lost in silence.
"""

from __future__ import annotations

from typing import Any, cast


class RedirectedError(Exception):
    """The collector's address is another one: it answers with a redirect."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}, a redirect")


def refuse_redirects(exporter: Any) -> None:
    """Make a redirect the loss that it is, where an exporter is an official one over HTTP."""
    transport = getattr(getattr(exporter, "_client", None), "_transport", exporter)
    hooks = getattr(getattr(transport, "_session", None), "hooks", None)
    if isinstance(hooks, dict):
        cast("dict[str, list[object]]", hooks).setdefault("response", []).append(_refuse)


def _refuse(response: Any, *_: object, **__: object) -> None:
    if 300 <= response.status_code < 400:  # noqa: PLR2004 - the class of statuses
        response.close()
        raise RedirectedError(response.status_code)
