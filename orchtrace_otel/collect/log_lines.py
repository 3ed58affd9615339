"""Late rewards in lines of log events, as the Collector's file exporter writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_otel import attributes as a
from orchtrace_otel.collect.admission import RefusedError
from orchtrace_otel.collect.json_bodies import read_logs
from orchtrace_otel.collect.parts import UNBOUNDED, Rejected
from orchtrace_otel.collect.verdicts import is_evaluation, read
from orchtrace_otel.tables.reading import Bad, Late

if TYPE_CHECKING:
    from collections.abc import Iterator


def late_rewards(line: bytes, where: str) -> Iterator[Late | Bad]:
    """Read the late rewards in a request of log events; other events of it are passed over.

    Args:
        line: An `ExportLogsServiceRequest` in JSON.
        where: What it is called in what is told of it.
    """
    rejected = Rejected()
    try:
        request = read_logs(line, rejected)
    except RefusedError as error:
        yield Bad(where, str(error))
        return
    for scope in (scope for resource in request.resource_logs for scope in resource.scope_logs):
        _keep_evaluations(scope.log_records)
    for verdict in read(request.SerializeToString(), UNBOUNDED, rejected)[0]:
        if verdict.run_id:
            yield Late(verdict.run_id, verdict.reward)
        else:
            yield Bad(where, f"an evaluation in a file must carry {a.RUN_ID}, came one without")
    if rejected.count:
        yield Bad(where, rejected.message)


def _keep_evaluations(records: Any) -> None:
    kept = [record for record in records if is_evaluation(record)]
    del records[:]
    records.extend(kept)
