"""The exporter kit, on a server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from orchtrace_http import HttpExporter, open_http
from orchtrace_otel.testing.conformance_exporters import ExporterConformance
from tests.exporters.http.receiver import Receiver


class TestHttp(ExporterConformance):
    """The exporter to a URL keeps every promise that an exporter makes."""

    can_break = True

    @pytest.fixture(autouse=True)
    def _served(self, server: Receiver) -> None:
        self.server = server

    def open(self, folder: Path) -> HttpExporter:
        return open_http(f"{self.server.url}{quote(str(folder))}#spool={folder}/spool&every=0.01")

    def read(self, folder: Path) -> list[Any]:
        return self.server.traces(quote(str(folder)))

    def read_rewards(self, folder: Path) -> list[Any]:
        return self.server.rewards(quote(str(folder)))

    def break_target(self, folder: Path) -> None:
        self.server.otherwise = (400, {})
