"""Code tried in a process of its own, where the global provider and the environment are fresh."""

import os
import subprocess
import sys
import textwrap


def run(code: str, **environment: str) -> str:
    """Run Python code with some variables, none of ours or OpenTelemetry's beside.

    Its warnings are errors; what it prints and logs is returned.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "ORCHTRACE_", "COVERAGE_"))
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=110,  # against what hangs, just before pytest itself gives up
        env=kept | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
