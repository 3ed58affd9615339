"""What tests of the command line share: what the demo leaves behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli.commands import run


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the demo once; return where it ran and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", cwd=folder)
