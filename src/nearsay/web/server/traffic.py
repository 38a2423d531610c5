"""What the server did: a JSON line for each request, and figures for Prometheus."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nearsay.core.printable import printable
from nearsay.web.access import ACCESS, ROUTE
from nearsay.web.parameters import PageRoute
from nearsay.web.rendering import served_by

ACCESS_LOG = logging.getLogger("nearsay.access")
# Bounds of the histogram, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
KIND = "text/plain; version=0.0.4; charset=utf-8"


class Traffic:
    """Counts of requests by route, method and status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[float] = Counter()
        self._sum = 0.0

    def record(self, scope: Any, status: int, seconds: float, n_bytes: int) -> None:
        """Count a request, and write its line where the log is on."""
        route = scope.get(ROUTE, "other")
        with self._lock:
            self._requests[route, scope["method"], status] += 1
            self._seconds[next((bound for bound in BOUNDS if seconds <= bound), float("inf"))] += 1
            self._sum += seconds
        if not ACCESS_LOG.isEnabledFor(logging.INFO):
            return
        access = scope.get(ACCESS)
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": None if access is None else access.name,
            "method": scope["method"],
            "path": printable(scope["path"]),  # without its query, which may hold a token or what was asked
            "status": status,
            "ms": round(1000 * seconds, 1),
            "bytes": n_bytes,
        }
        ACCESS_LOG.info("%s", json.dumps(line, ensure_ascii=False))

    def lines(self) -> list[str]:
        """The counts as Prometheus reads them."""
        with self._lock:
            requests, seconds, total = dict(self._requests), dict(self._seconds), self._sum
        lines = ["# TYPE nearsay_requests_total counter"]
        lines += [
            f'nearsay_requests_total{{route="{route}",method="{method}",status="{status}"}} {n}'
            for (route, method, status), n in sorted(requests.items())
        ]
        lines.append("# TYPE nearsay_request_seconds histogram")
        below = 0
        for bound in (*BOUNDS, float("inf")):
            below += seconds.get(bound, 0)
            shown = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f'nearsay_request_seconds_bucket{{le="{shown}"}} {below}')
        return [*lines, f"nearsay_request_seconds_sum {total:.6f}", f"nearsay_request_seconds_count {below}"]


async def health(request: Request) -> Response:
    """Whether the server answers; needs no token, and says nothing else."""
    return JSONResponse({"status": "ok"})


async def metrics(request: Request) -> Response:
    """Figures about requests and the collection, as Prometheus reads them."""
    served = served_by(request)
    about = await served.run(served.about)
    lines = list(request.app.state.traffic.lines())
    for name, value in (("items", about["items"]), ("version", about["version"])):
        lines += [f"# TYPE nearsay_{name} gauge", f"nearsay_{name} {value}"]
    return Response("\n".join([*lines, ""]), media_type=KIND)


ROUTES = [PageRoute("/health", health), PageRoute("/metrics", metrics)]
