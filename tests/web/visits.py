"""What is asked of a served collection until it is no longer computing."""

from __future__ import annotations

import time

OVER = ("done", "failed", "canceled")
PATIENCE = 60.0


def at_rest(client, path):
    """The answer of a page when nothing is being computed any more."""
    until = time.monotonic() + PATIENCE
    while (answer := client.get(path)).status_code == 202:
        assert answer.headers.get("Refresh") or answer.headers.get("Retry-After")
        assert time.monotonic() < until, f"{path} is never done"
        time.sleep(0.01)
    assert answer.status_code == 200, answer.text
    return answer


def finished(client, job):
    """A job when it is over."""
    until = time.monotonic() + PATIENCE
    while job["state"] not in OVER:
        assert time.monotonic() < until, f"{job} does not end"
        time.sleep(0.01)
        job = client.get(f"/jobs/{job['key']}.json").json()["job"]
    return job
