"""What threads of ours do belongs to no request of the host's."""

import threading
from pathlib import Path

from opentelemetry import context as otel_context

from orchtrace_otel.own_thread import OwnThread, Waiting
from orchtrace_otel.spans import is_suppressed
from tests.processes import run

SERVED = """
    import os, sys, threading, weakref

    from opentelemetry import context, trace
    from opentelemetry.sdk.trace import TracerProvider

    import orchtrace_otel as orchtrace
    from orchtrace_otel.own_thread import OwnThread

    class Asks:
        def export(self, trace): print("exporter:", dict(context.get_current()))
        def amend(self, run_id, reward): pass
        def flush(self, timeout_s): pass
        def shutdown(self): pass

    @orchtrace.team
    def team(question):
        return question

    where = os.environ["WHERE"]
    pushed = f"http:http://127.0.0.1:9/#spool={where}/spool"
    content = {"mode": "EVENT_ONLY", "store": f"{where}/content"}
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    orchtrace.configure(exporters=[pushed, Asks()], content=content)
    with orchtrace.instrument():
        with trace.get_tracer("web").start_as_current_span("request") as request:
            team("why")
            orchtrace.flush(0.1)
    held = weakref.ref(request)
    del request
    print("held:", held() is not None)
    threads = [one for one in threading.enumerate() if one.name.startswith("orchtrace-")]
    print(sorted((one.name, type(one) is OwnThread) for one in threads))
    sys.stdout.flush()
    os._exit(0)  # the server that runs are pushed to is none
"""


def test_a_request_that_has_the_first_run_does_not_live_on_in_threads_of_ours(
    tmp_path: Path,
) -> None:
    """The hooks for threads hand its context to those that begin in it, for good."""
    told = run(SERVED, WHERE=str(tmp_path))
    names = [("orchtrace-content", True), ("orchtrace-delivery", True), ("orchtrace-http", True)]
    assert told.splitlines()[:3] == ["exporter: {}", "held: False", str(names)]


def test_a_quiet_thread_has_its_instrumentations_suppressed() -> None:
    """Of what it sends no client tells spans; of what a host's exporter sends, it is to."""
    found: list[bool] = []
    for is_quiet in (True, False):
        thread = OwnThread(
            lambda: found.append(is_suppressed(otel_context.get_current())),
            "orchtrace-test",
            is_quiet=is_quiet,
        )
        thread.start()
        thread.join()
    assert found == [True, False]
    assert not is_suppressed(otel_context.get_current())
    assert thread not in threading.enumerate()


def test_what_hangs_is_waited_for_again_and_gathers_no_threads() -> None:
    """A service may ask for a flush with each request, while its collector does not answer."""
    goes_on = threading.Event()
    waiting = Waiting()
    before = set(threading.enumerate())
    assert [waiting.within(0.01, goes_on.wait) for _ in range(5)] == [None] * 5
    (hanging,) = set(threading.enumerate()) - before
    goes_on.set()
    assert waiting.within(30, lambda: "done") == "done"
    assert not hanging.is_alive()
