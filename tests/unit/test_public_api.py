"""The public face: a change to it is to be a decision."""

import inspect

import orchtrace_otel as orchtrace
from tests.processes import run

NAMES = [
    "ConfigError",
    "Edge",
    "Event",
    "Instrumented",
    "MissingDependencyError",
    "OrchtraceError",
    "Reward",
    "Run",
    "Trace",
    "TraceFormatError",
    "Turn",
    "advise",
    "agent",
    "aggregate",
    "configure",
    "counterfactual",
    "current_run",
    "decide",
    "delegate",
    "extract",
    "flush",
    "inject",
    "instrument",
    "losses",
    "message",
    "record_reward",
    "reward",
    "shutdown",
    "spawn",
    "stop",
    "team",
    "tool",
]

PARAMETERS = {
    "advise": "(model, callback, *, max_tokens, max_seconds, pollable)",
    "agent": "(target, /, *, name, role)",
    "aggregate": "(sources)",
    "configure": "(tracer_provider, logger_provider, meter_provider, exporters, rewards, content)",
    "counterfactual": "(trace, replay, players, *, method, replays, alternatives, score, baseline, "
    "order, truncation, width, latency_weight, budget_s, seed, workers, timeout_s, recording, "
    "journal, progress)",
    "current_run": "()",
    "decide": "(name, *, chosen, candidates, probability)",
    "delegate": "(agent, *, task)",
    "extract": "(carrier)",
    "flush": "(timeout_s)",
    "inject": "(carrier)",
    "instrument": "(*names)",
    "losses": "()",
    "message": "(to, content)",
    "record_reward": "(component, value, *, run_id, event_id, family, unit, target, estimator, "
    "provisional, n, se, version)",
    "reward": "(function, /, *, family, unit, estimator, range, inputs, version)",
    "shutdown": "()",
    "spawn": "(agent)",
    "stop": "(reason, detail)",
    "team": "(target, /, *, name, task_id, tags, reward)",
    "tool": "(target, /, *, name, replay_safe)",
}


def test_the_face_is_these_names() -> None:
    """Sorted, all there, and each documented."""
    assert orchtrace.__all__ == NAMES == sorted(NAMES)
    for name in NAMES:
        assert inspect.getdoc(getattr(orchtrace, name)), name


def test_who_looks_around_finds_what_is_loaded_later() -> None:
    """A console completes names from there."""
    code = "import orchtrace_otel as o; print(sorted(set(o.__all__) - set(dir(o))))"
    assert run(code) == "[]\n"


def test_the_functions_take_these_parameters() -> None:
    """Names and kinds; a renamed keyword breaks its users."""
    assert {
        name: _parameters(getattr(orchtrace, name)) for name in NAMES if name[0].islower()
    } == PARAMETERS


def _parameters(function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [
        parameter.replace(default=inspect.Parameter.empty, annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))


def test_the_exceptions_are_a_tree() -> None:
    """One base of ours, and the built-in class that who does not know us would catch."""
    assert {
        kind.__name__: [base.__name__ for base in kind.__bases__]
        for kind in (
            orchtrace.OrchtraceError,
            orchtrace.ConfigError,
            orchtrace.MissingDependencyError,
            orchtrace.TraceFormatError,
        )
    } == {
        "OrchtraceError": ["Exception"],
        "ConfigError": ["OrchtraceError", "ValueError"],
        "MissingDependencyError": ["OrchtraceError", "ImportError"],
        "TraceFormatError": ["OrchtraceError", "ValueError"],
    }
