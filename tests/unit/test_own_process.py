"""Python's garbage collector is the host's; commands change it, in a process of their own."""

import subprocess
import sys

TOLD = "print(gc.get_threshold() == before, gc.get_freeze_count() - frozen)"


def said(code: str) -> str:
    """What a program of its own prints last."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_team_keeps_its_own() -> None:
    """Importing, configuring and tracing change nothing of it."""
    code = f"""
import gc
before, frozen = gc.get_threshold(), gc.get_freeze_count()  # Python 3.12 has some from the start
import orchtrace_otel as orchtrace
orchtrace.configure(exporters=[])
orchtrace.team(lambda: None, name="team")()
orchtrace.shutdown()
{TOLD}
"""
    assert said(code) == "True 0"


def test_a_command_collects_seldom() -> None:
    """Its process is its own, and makes much that goes by itself."""
    code = f"""
import atexit, gc, sys
before = (50_000, 20, 50)
atexit.register(lambda: {TOLD.replace("- frozen", "> 1000")})
sys.argv = ["orchtrace", "--version"]
from orchtrace_otel.cli import main
main()
"""
    assert said(code) == "True True"
