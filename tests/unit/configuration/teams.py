"""A team to trace, here and as code for a process of its own."""

import orchtrace_otel as orchtrace


@orchtrace.team
def team() -> int:
    return 3


TEAM = """
import orchtrace_otel as orchtrace
from opentelemetry import trace

@orchtrace.team
def team():
    run = orchtrace.current_run()
    return None if run is None else run.id
"""
