"""Run examples as they are, their spans over OTLP beside the traces they write inline.

Usage: `python traced.py EXPORTER FILE FRAMEWORK SCRIPT...`: EXPORTER such as
`otlp:http://127.0.0.1:4318`, FILE where the inline traces go as lines of JSON, whatever
exporters the scripts name. Each script has a process of its own, forked once the
framework, which takes long to import, is imported.
"""

import importlib
import os
import runpy
import sys
from pathlib import Path
from typing import Any

IMPORTS = {
    "autogen": ("autogen_agentchat.teams", "autogen_ext.models.replay", "orchtrace_autogen"),
    "langgraph": ("langgraph.graph", "langchain_core.language_models", "orchtrace_langgraph"),
    "plain": ("orchtrace_otel",),
}


def run(exporter: str, file: str, script: str) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    import orchtrace_otel as orchtrace
    from orchtrace_otel.exporter import open_exporter

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(open_exporter(exporter)))
    trace.set_tracer_provider(provider)
    configure = orchtrace.configure

    def beside(*, exporters: Any = (), **given: Any) -> None:
        configure(exporters=[*exporters, f"jsonl:{file}"], **given)

    orchtrace.configure = beside
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
    orchtrace.shutdown()
    provider.shutdown()
    sys.stdout.flush()


def main() -> int:
    exporter, file, framework, *scripts = sys.argv[1:]
    for name in IMPORTS[framework]:
        importlib.import_module(name)
    for script in scripts:
        child = os.fork()
        if child == 0:
            run(exporter, file, script)
            sys.exit(0)
        if os.waitpid(child, 0)[1] != 0:
            return 1  # it has said why
    return 0


if __name__ == "__main__":
    sys.exit(main())
