"""What it costs to import the package, beside what the OpenTelemetry SDK costs.

Ours is compiled first, as installing does: else a module that was edited is compiled
anew in every interpreter that does not write byte code.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
import time
from pathlib import Path

import orchtrace_otel
from benchmarks.measure import alternate, ratio, report

ROUNDS = 15


def importing(module: str) -> float:
    """Wall seconds of a fresh interpreter that imports a module."""
    before = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - before


def main() -> None:
    compileall.compile_dir(Path(orchtrace_otel.__file__).parent, quiet=1)
    samples = alternate(
        {
            "sdk": lambda: importing("opentelemetry.sdk.trace"),
            "ours": lambda: importing("orchtrace_otel"),
        },
        ROUNDS,
    )
    what = "import orchtrace_otel, to import opentelemetry.sdk.trace"
    report("Import, wall time", [(what, ratio(samples, "ours", "sdk"), "<= 1.3")])


if __name__ == "__main__":
    main()
