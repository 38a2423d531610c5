"""Evaluation page: labeled items are answered again in the background; figures and charts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nearsay.collection.evaluation.judgement import Judgement
from nearsay.core.cancellation import stoppable
from nearsay.reports.evaluation import TARGET
from nearsay.reports.svg_charts import case_table_svg, confusion_svg, curve_svg, reliability_svg
from nearsay.web.content.background_cache import Recent
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.parameters import Takes, twins
from nearsay.web.rendering import respond, served_by, wants_json
from nearsay.web.schema import ANY, BOOL, PART, PLACE, SHARE, TEXT, nullable, record, several, share, text
from nearsay.web.server.jobs import Job, Jobs, jobs_of
from nearsay.web.shapes import JOB, JOB_GIVEN, LABEL, VERSION

MOST_KEPT, MOST_ACCURACIES = 3, 16
CLASSES_SHOWN = 12
JUDGE = {"accuracy": SHARE, "holdout": share(0.05, 0.5)}
SHOW, AGAIN = Takes(query=JUDGE), Takes(form=JUDGE)


class Judgements:
    """The last judgement for each share held out, and its figures at several accuracies."""

    patience = 1.0  # seconds until a page with the progress is shown instead
    most_bytes = 256 * 2**20  # of the probabilities of judged items, together

    def __init__(self) -> None:
        self.judge: Callable[..., Judgement] = Judgement.of
        self._lock = threading.Lock()
        self._last: OrderedDict[float | None, Judgement] = OrderedDict()
        self._shown: Recent[dict[str, Any]] = Recent(MOST_ACCURACIES)
        self._jobs: dict[float | None, tuple[int, Job]] = {}

    def last(self, holdout: float | None) -> Judgement | None:
        """The last judgement, perhaps of an earlier version."""
        with self._lock:
            return self._last.get(holdout)

    @property
    def _n_bytes(self) -> int:
        return sum(each.n_bytes for each in self._last.values())

    def job(self, holdout: float | None) -> tuple[int, Job] | None:
        """The last job, and the version it began at."""
        with self._lock:
            return self._jobs.get(holdout)

    def start(self, jobs: Jobs, served: ServedCollection, holdout: float | None, page: str) -> Job:
        """Judge again, unless that is running."""

        def work(job: Job) -> None:
            with stoppable(job.check):
                judgement = self.judge(
                    served.collection, holdout=holdout, on_progress=job.progress, most_bytes=self.most_bytes
                )
                judgement.shown(TARGET)
            with self._lock:
                self._last[holdout] = judgement
                self._last.move_to_end(holdout)
                while len(self._last) > 1 and (len(self._last) > MOST_KEPT or self._n_bytes > self.most_bytes):
                    self._jobs.pop(self._last.popitem(last=False)[0], None)

        with self._lock:
            running = self._jobs.get(holdout)
            if running is not None and not running[1].over:
                return running[1]
            title = "Answering every item" if holdout is None else f"Holding out {holdout:.0%} and learning again"
            job = jobs.start("judging", title, page, work)
            self._jobs = {held: each for held, each in self._jobs.items() if held in self._last or not each[1].over}
            self._jobs[holdout] = served.collection.version, job
            return job

    def shown(self, judgement: Judgement, holdout: float | None, accuracy: float) -> dict[str, Any]:
        """All figures at an accuracy, cached."""
        key = judgement.version, holdout, accuracy
        figures = self._shown.get(key)
        if figures is None:
            figures = judgement.shown(accuracy)
            self._shown.put(key, figures)
        return figures


async def how_good(request: Request) -> Response:
    """The last judgement, or the progress of the first; starts one where there is none."""
    served, judgements = served_by(request), request.app.state.judgements
    accuracy, holdout = _settings(SHOW.read_query(request))
    unlabeled = await served.run(lambda: served.collection.items.voting().is_unlabeled)
    job, judgement = None, None
    if not unlabeled:
        page = _page(accuracy, holdout)
        job, judgement = await served.run(_ready, judgements, jobs_of(request), served, holdout, page)
    figures = None if judgement is None else await served.run(judgements.shown, judgement, holdout, accuracy)
    data = {
        "accuracy": accuracy,
        "holdout": holdout,
        "version": served.collection.version,
        "judged": figures,
        "unlabeled": unlabeled,
        "job": None if job is None else job.to_dict(),
    }
    if not wants_json(request):
        data |= {"charts": {} if figures is None else _charts(figures, accuracy), "classes_shown": CLASSES_SHOWN}
    return await respond(
        request, "how-good.html", data, 202 if job is not None and judgement is None and wants_json(request) else 200
    )


def _ready(
    judgements: Judgements, jobs: Jobs, served: ServedCollection, holdout: float | None, page: str
) -> tuple[Job | None, Judgement | None]:
    """The job to show, if any, and the last judgement; a job is started where there is neither."""
    started = judgements.job(holdout)
    # A job that failed or was canceled is not started again by loading the page, until something changed.
    may_start = started is None or (started[1].over and started[0] != served.collection.version)
    if judgements.last(holdout) is None and may_start:
        started = 0, judgements.start(jobs, served, holdout, page)
    if started is not None and not started[1].over:
        started[1].wait(judgements.patience)
    job = None if started is None or started[1].state == "done" else started[1]
    return job, judgements.last(holdout)


async def judge_again(request: Request) -> Response:
    """Judge the present version of the collection."""
    served = served_by(request)
    accuracy, holdout = _settings(await AGAIN.read_form(request))
    page = _page(accuracy, holdout)
    job = await served.run(request.app.state.judgements.start, jobs_of(request), served, holdout, page)
    if wants_json(request):
        return await respond(request, "job.html", {"job": job.to_dict()}, 202)
    return RedirectResponse(page, 303)


def _settings(values: dict[str, Any]) -> tuple[float, float | None]:
    accuracy, holdout = (None if values[name] is None else round(values[name], 3) for name in ("accuracy", "holdout"))
    return TARGET if accuracy is None else accuracy, holdout


def _page(accuracy: float, holdout: float | None) -> str:
    held = {} if holdout is None else {"holdout": f"{holdout:g}"}
    return f"/how-good?{urlencode({'accuracy': f'{accuracy:g}', **held})}"


def _charts(figures: dict[str, Any], accuracy: float) -> dict[str, Any]:
    hedging = figures.get("hedging")
    marks = (hedging["at_requested"], hedging.get("reached")) if hedging else ()
    return {
        "reliability": reliability_svg(figures["reliability"]) if "reliability" in figures else "",
        "curve": curve_svg(figures["curve"], accuracy, *marks) if hedging else "",
        "levels": [confusion_svg(level) if level["counts"] else "" for level in figures["levels"]],
        "tables": ["" if table["too_large"] else case_table_svg(table) for table in figures["tables"]],
    }


CLASS = record(
    {
        "label": LABEL, "n_items": PLACE, "n_predicted": PLACE, "n_right": PLACE, "recall": nullable(PART),
        "precision": nullable(PART),
    }
)  # fmt: skip
# Further figures are those of ``nearsay evaluate --json``.
REPORT = record(
    {"title": text("birds"), "how": TEXT, "version": VERSION, "n_items": PLACE, "notes": several(TEXT)},
    {"accuracy": PART, "accuracy_range": nullable(several(PART)), "classes": several(CLASS), "n_right": PLACE},
    "Report",
) | {"additionalProperties": ANY}  # fmt: skip
GOOD = record(
    {
        "accuracy": PART, "holdout": nullable(PART), "version": VERSION, "judged": nullable(REPORT),
        "unlabeled": BOOL, "job": nullable(JOB),
    }
)  # fmt: skip

ROUTES = [
    *twins("/how-good", how_good, SHOW, gives=GOOD),
    *twins("/how-good", judge_again, AGAIN, "POST", gives=JOB_GIVEN),
]
