"""How good it is: items whose labels are known asked about again, in the background, and shown with its charts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nearsay.collection.evaluation.judgement import Judgement
from nearsay.core.cancellation import stoppable
from nearsay.errors import InputError
from nearsay.reports.evaluation import ASKED
from nearsay.reports.svg_charts import case_table_svg, confusion_svg, curve_svg, reliability_svg
from nearsay.web.content.served_collection import Served
from nearsay.web.rendering import respond, served_by, wants_json
from nearsay.web.server.jobs import Job, Jobs, jobs_of

# Answers that take longer are waited for on a page that tells how far they are.
PATIENCE = 1.0
MOST_KEPT, MOST_ACCURACIES = 3, 16
# Probabilities of judged items take no more memory than this, together.
MOST_BYTES = 256 * 2**20
CLASSES_SHOWN = 12


class Judgements:
    """The last judgement of each way to hold items out, and its figures at the accuracies that were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[float | None, Judgement] = OrderedDict()
        self._shown: OrderedDict[tuple[int, float | None, float], dict[str, Any]] = OrderedDict()
        self._jobs: dict[float | None, tuple[int, Job]] = {}

    def last(self, holdout: float | None) -> Judgement | None:
        """What was judged last, perhaps a while ago."""
        with self._lock:
            return self._last.get(holdout)

    @property
    def _n_bytes(self) -> int:
        return sum(each.n_bytes for each in self._last.values())

    def job(self, holdout: float | None) -> tuple[int, Job] | None:
        """The last work on it, and the event it began after."""
        with self._lock:
            return self._jobs.get(holdout)

    def start(self, jobs: Jobs, served: Served, holdout: float | None, page: str) -> Job:
        """Judge anew, unless that is under way."""

        def work(job: Job) -> None:
            with stoppable(job.check):
                made = Judgement.of(served.collection, holdout=holdout, on_progress=job.progress, most_bytes=MOST_BYTES)
                made.shown(ASKED)
            with self._lock:
                self._last[holdout] = made
                self._last.move_to_end(holdout)
                while len(self._last) > 1 and (len(self._last) > MOST_KEPT or self._n_bytes > MOST_BYTES):
                    self._jobs.pop(self._last.popitem(last=False)[0], None)

        with self._lock:
            under_way = self._jobs.get(holdout)
            if under_way is not None and not under_way[1].over:
                return under_way[1]
            title = "Asking about every item" if holdout is None else f"Holding out {holdout:.0%} and learning anew"
            job = jobs.start("judging", title, page, work)
            self._jobs = {held: each for held, each in self._jobs.items() if held in self._last or not each[1].over}
            self._jobs[holdout] = served.collection.version, job
            return job

    def shown(self, made: Judgement, holdout: float | None, accuracy: float) -> dict[str, Any]:
        """All figures at an accuracy, kept for the next time."""
        key = made.version, holdout, accuracy
        with self._lock:
            found = self._shown.get(key)
        if found is None:
            found = made.shown(accuracy)
            with self._lock:
                self._shown[key] = found
                while len(self._shown) > MOST_ACCURACIES:
                    self._shown.popitem(last=False)
        return found


async def how_good(request: Request) -> Response:
    """What was judged last, or how far it is; begins where nothing was."""
    served, judgements = served_by(request), request.app.state.judgements
    accuracy, holdout = _asked(request.query_params)
    job, made = await served.run(_ready, judgements, jobs_of(request), served, holdout, _page(accuracy, holdout))
    found = None if made is None else await served.run(judgements.shown, made, holdout, accuracy)
    data = {
        "accuracy": accuracy,
        "holdout": holdout,
        "version": served.collection.version,
        "judged": found,
        "job": None if job is None else job.to_dict(),
    }
    if not wants_json(request):
        data |= {"charts": {} if found is None else _charts(found, accuracy), "classes_shown": CLASSES_SHOWN}
    return await respond(request, "how-good.html", data, 202 if made is None and wants_json(request) else 200)


def _ready(
    judgements: Judgements, jobs: Jobs, served: Served, holdout: float | None, page: str
) -> tuple[Job | None, Judgement | None]:
    """The work to be told of, if any, and what was judged last; begun where neither is there."""
    begun = judgements.job(holdout)
    # What failed or was canceled is not begun again by looking, until something changed.
    over_since = begun is None or (begun[1].over and begun[0] != served.collection.version)
    if judgements.last(holdout) is None and over_since:
        begun = 0, judgements.start(jobs, served, holdout, page)
    if begun is not None and not begun[1].over:
        begun[1].wait(PATIENCE)
    job = None if begun is None or begun[1].state == "done" else begun[1]
    return job, judgements.last(holdout)


async def judge_again(request: Request) -> Response:
    """Judge the collection as it is now."""
    served = served_by(request)
    async with request.form(max_files=0, max_fields=5) as form:
        accuracy, holdout = _asked({name: str(value) for name, value in form.items()})
    page = _page(accuracy, holdout)
    job = await served.run(request.app.state.judgements.start, jobs_of(request), served, holdout, page)
    if wants_json(request):
        return await respond(request, "job.html", {"job": job.to_dict()}, 202)
    return RedirectResponse(page, 303)


def _page(accuracy: float, holdout: float | None) -> str:
    held = {} if holdout is None else {"holdout": f"{holdout:g}"}
    return f"/how-good?{urlencode({'accuracy': f'{accuracy:g}', **held})}"


def _asked(given: Any) -> tuple[float, float | None]:
    accuracy, holdout = _share("accuracy", given.get("accuracy")), _share("holdout", given.get("holdout"))
    if holdout is not None and not 0.05 <= holdout <= 0.5:
        raise InputError(f"holdout is a share from 0.05 to 0.5; got {holdout:g}.")
    return ASKED if accuracy is None else accuracy, holdout


def _share(name: str, given: str | None) -> float | None:
    if not given:
        return None
    try:
        share = float(given)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"{name} must be a number from 0 to 1; got {given[:40]!r}.")
    return round(share, 3)


def _charts(found: dict[str, Any], accuracy: float) -> dict[str, Any]:
    hedging = found.get("hedging")
    hedged = (hedging["at_asked"], hedging.get("said")) if hedging else ()
    return {
        "reliability": reliability_svg(found["reliability"]) if "reliability" in found else "",
        "curve": curve_svg(found["curve"], accuracy, *hedged) if hedging else "",
        "levels": [confusion_svg(level) if level["counts"] else "" for level in found["levels"]],
        "tables": ["" if table["too_large"] else case_table_svg(table) for table in found["tables"]],
    }


ROUTES = [
    Route("/how-good", how_good, methods=["GET"]),
    Route("/how-good.json", how_good, methods=["GET"]),
    Route("/how-good", judge_again, methods=["POST"]),
    Route("/how-good.json", judge_again, methods=["POST"]),
]
