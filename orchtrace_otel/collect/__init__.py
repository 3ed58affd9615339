"""`orchtrace collect`: OTLP in, whole runs out, next to any OpenTelemetry Collector.

One process sees its own part of a run only. The collector takes the spans of all of
them, over OTLP, and builds the whole. What it acknowledged it keeps, whoever is killed
when::

    http.py, grpc.py ─> intake.py ─> spool.py ─> runs.py ─> closing.py ─> store.py
      the two ways in    checks and    on disk     open runs   built and     the folder,
                         bounds        first       and when    scored        and its index
                                                   they close

How runs are fed: a request is checked and cut by OTel trace (`parts.py`); each part is an
encoded `ExportTraceServiceRequest` of its own, with resource and scope, and stays encoded
until its trace closes. Then all parts of one OTel trace, joined (which in protobuf is one
request), go through `otlp.read_protobuf` and `otlp.traces`, and whatever runs these find
are stored. So what a span means, also a span of others, is decided in `otlp.py` alone:
nothing here reads an attribute but the run's id, as a hint of when a run is whole.

Needs the extra `collect`.
"""

from __future__ import annotations

from typing import Final

LOCK: Final = ".collect.lock"
"""What a store has in it from the moment a collector takes it."""
