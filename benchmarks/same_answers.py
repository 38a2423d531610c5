"""Whether two versions give the same answers, bit for bit: ``python -m benchmarks.same_answers``.

Each version writes what it answers, and the second run compares:

    cd before && python -m benchmarks.same_answers --write /tmp/before.json
    cd after  && python -m benchmarks.same_answers --compare /tmp/before.json

Fitted and asked on fixed data: every public estimator, all posteriors, searches of every kind, the live collection,
the command line and the routes of the page. Of what they return, all numbers are compared, and all names that come
from the data; sentences and the names of fields may change. The digests depend on the processor, so both runs belong
on one machine, and on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CLOCKS = ("second", "time", "when", "date", "version", "token", "bytes", "size", "python", "path", "address", "href")
LABELS = ["ash", "beech", "cedar", "fir"]
WORDS = ["green", "tall", "old", "wet"]


def rows(n: int, n_columns: int, seed: int, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Clusters with ties and duplicates: half of the columns hold whole numbers, every tenth row is repeated."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centers = np.random.default_rng(99).normal(size=(n_classes, n_columns)) * 1.5
    X = centers[y] + rng.normal(size=(n, n_columns))
    X[:, ::2] = np.round(X[:, ::2])
    X[9::10] = X[8::10][: len(X[9::10])]
    return X, y


def keywords(X: np.ndarray) -> np.ndarray:
    """One to four keywords a row, as a table of zeros and ones."""
    projected = X[:, : len(WORDS)] > 0
    projected[:, 0] |= ~projected.any(axis=1)
    return projected.astype(int)


def facts(thing: Any, names: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """All numbers of a nested answer, and the strings among ``names``, in order."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            if not any(clock in str(key).lower() for clock in CLOCKS):
                yield from facts(value, names)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from facts(value, names)
    elif isinstance(thing, bytes):
        yield thing
    elif isinstance(thing, str):
        if thing in names:
            yield thing.encode()
    elif thing is None or isinstance(thing, bool | np.bool_):
        return
    elif hasattr(thing, "toarray"):
        yield from facts(thing.toarray(), names)
    elif isinstance(thing, np.ndarray | np.generic | int | float):
        array = np.asarray(thing)
        yield (
            "|".join(map(str, array.ravel())) if array.dtype.kind in "OUS" else array.astype(float).tobytes().hex()
        ).encode()
    elif hasattr(thing, "to_dict"):
        yield from facts(thing.to_dict(), names)
    elif hasattr(thing, "indices"):
        yield from facts([thing.indices, thing.distances], names)


def digest(thing: Any, names: frozenset[str] = frozenset()) -> str:
    compared = b";".join(facts(thing, names))
    if not compared:
        raise ValueError("nothing in it can be compared")
    return hashlib.sha256(compared).hexdigest()[:16]


def estimators() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public estimator as it comes, and the classifier with each posterior."""
    import nearsay as ns
    from nearsay.posterior import POSTERIORS

    X, y = rows(240, 6, 0)
    Q, _ = rows(60, 6, 1)
    labels, Y = np.array(LABELS)[y], keywords(X)
    taxonomy = ns.Taxonomy.from_edges([("leafy", "ash"), ("leafy", "beech"), ("needled", "cedar"), ("needled", "fir"),
                                       ("tree", "leafy"), ("tree", "needled")])  # fmt: skip

    def classifier(make: Callable[[], Any], *more: str) -> Callable[[], Any]:
        def ask() -> Any:
            model = make().fit(X, labels)
            answers = [model.predict_proba(Q)] if hasattr(model, "predict_proba") else []
            answers += [model.predict(Q)]
            return answers + [getattr(model, name)(Q[:7]) for name in more if hasattr(model, name)]

        return ask

    for n_classes in (2, 4, 130):
        Xc, yc = rows(400, 5, n_classes, n_classes)
        yield f"default, {n_classes} classes", lambda X=Xc, y=yc: _fit_and_ask(ns.NeighborClassifier(), X, y)
    yield "default", classifier(ns.NeighborClassifier, "explain", "kneighbors")
    for metric in ("auto", "manhattan", "cosine", "jensen_shannon"):
        if metric == "jensen_shannon":
            yield metric, lambda: _fit_and_ask(ns.NeighborClassifier(5, metric="jensen_shannon"), np.abs(X), y)
        else:
            yield metric, classifier(lambda metric=metric: ns.NeighborClassifier(metric=metric), "explain")
    for name in POSTERIORS:
        for k in (1, 7, "auto"):
            yield (
                f"{name}, k={k}",
                classifier(lambda k=k, name=name: ns.NeighborClassifier(k, posterior=name), "explain"),
            )
    yield "weights", lambda: _fit_and_ask(ns.NeighborClassifier(), X, y, sample_weight=1.0 + np.arange(len(X)) % 3)
    groups = {"left": slice(0, 3), "right": slice(3, 6)}
    yield "fused", classifier(lambda: ns.FusedClassifier(groups), "explain")
    yield "hedged", classifier(lambda: ns.HedgedClassifier(ns.NeighborClassifier(), taxonomy, accuracy=0.9), "explain")
    yield "conformal", lambda: [ns.ConformalClassifier(ns.NeighborClassifier(5)).fit(X, labels).predict_set(Q)]
    for name in ("ITML", "LMNN", "BoostMetric", "WithinClassWhitening"):
        kind = getattr(ns, name)
        steps = {"max_iter": 10} if "max_iter" in inspect.signature(kind).parameters else {}
        yield name, lambda kind=kind, steps=steps: kind(**steps).fit(X, labels).transform(Q)
    grid = {"gamma": [0.1, 1.0]}
    yield "tune_metric", lambda: ns.tune_metric(ns.ITML(), X, labels, grid, n_neighbors=3, random_state=0).table
    yield "RankBoostNeighbors", lambda: ns.RankBoostNeighbors(max_iter=5, random_state=0).fit(X, Y).neighbors(Q, 5)
    yield "KeywordAnnotator", lambda: [a.to_dict() for a in _annotations(ns.KeywordAnnotator().fit(X, Y), Q)]
    for name in ("JointNeighbors", "KeywordRegression", "MLkNN", "TwoPassNeighbors"):
        yield name, lambda name=name: _scores(getattr(ns.annotate, name)(), X, Y, Q)


def _fit_and_ask(model: Any, X: np.ndarray, y: np.ndarray, **fit: Any) -> Any:
    model.fit(X, y, **fit)
    Q = X[::7] + 0.25
    return [model.predict_proba(Q), model.explain(Q[:5])]


def _annotations(model: Any, Q: np.ndarray) -> Any:
    return model.annotate(Q)


def _scores(scorer: Any, X: np.ndarray, Y: np.ndarray, Q: np.ndarray) -> Any:
    scorer.fit(X, Y)
    if hasattr(scorer, "neighbors"):
        return scorer.neighbors(Q, 5) if "k" in inspect.signature(scorer.neighbors).parameters else scorer.neighbors(Q)
    return scorer.scores(Q)


def searches() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Neighbors and class orders, over sizes that take every way of searching."""
    import nearsay as ns

    for n, d, n_classes in [
        (1, 1, 1),
        (150, 4, 3),
        (1_600, 64, 10),
        (1_600, 64, 300),
        (9_000, 16, 10),
        (30_000, 32, 129),
    ]:
        X, y = rows(n, d, n + d, n_classes)
        X[:, 0] += 0.5  # no row is zero, which has no cosine
        Q = X[:: max(1, n // 40)] + 0.125
        for metric in ("euclidean", "manhattan", "cosine") if n < 5_000 else ("euclidean",):
            index = ns.NeighborIndex(metric).fit(X)
            labeled = index.with_labels(y, n_classes)
            name = f"{n}x{d}, {n_classes} classes, {metric}"
            for k in {1, min(10, n), min(50, n)}:
                yield f"{name}, k={k}", lambda index=index, Q=Q, k=k: index.query(Q, k)
            for members in ((), (1,), (1, 4)):
                k = min(10, n)
                yield (
                    f"{name}, {members}",
                    lambda labeled=labeled, Q=Q, k=k, m=members: _classes(labeled.query(Q, k, m)),
                )
                if 1 < n < 5_000:
                    ask = partial(labeled.leave_one_out, min(k, n - 1), members)
                    yield f"{name}, {members}, left one out", lambda ask=ask: _classes(ask())


def _classes(table: Any) -> Any:
    answers = [table.indices, table.distances]
    return answers + ([table.classes.numbers, table.classes.means] if table.classes is not None else [])


def collections() -> Iterator[tuple[str, Callable[[], Any]]]:
    """A live collection, and the same one over the command line and the page."""
    import nearsay as ns

    X, y = rows(200, 5, 7)
    Q, _ = rows(12, 5, 8)
    labels = [LABELS[number] for number in y]
    words = [[WORDS[word] for word in np.flatnonzero(row)] for row in keywords(X)]
    ids = [f"tree {row}" for row in range(len(X))]
    edges = [("leafy", "ash"), ("leafy", "beech"), ("needled", "cedar"), ("needled", "fir")]
    edges += [("tree", "leafy"), ("tree", "needled")]
    names = frozenset([*ids, *LABELS, *WORDS, "leafy", "needled", "tree"])

    def live() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            collection = ns.LiveCollection.create(Path(folder) / "trees.nearsay", 5, taxonomy=edges)
            collection.add(ids[:150], X[:150], labels[:150], words[:150])
            collection.learn()
            answers = [_plain(collection.label(Q))]
            collection.add(ids[150:], X[150:], labels[150:], words[150:])
            collection.relabel([ids[3]], ["fir"])
            collection.forget(ids[5:9])
            answers += [_plain(collection.label(Q)), _plain(collection.label_items(ids[20:24]))]
            answers += [
                _plain(collection.likely_mistakes()),
                _plain(collection.near_duplicates()),
                _plain(collection.label_next()),
            ]
            collection.undo()
            answers += [_plain(collection.label(Q))]
            collection.close()
            return answers

    yield "live collection", lambda: list(facts(live(), names))

    def commands() -> Any:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            _table(Path("trees.csv"), ids, X, labels, words)
            _table(Path("new.csv"), [f"new {row}" for row in range(len(Q))], Q)
            Path("tree.csv").write_text("parent,child\n" + "".join(f"{a},{b}\n" for a, b in edges))
            answers = [
                _command(
                    "index", "trees.csv", "-o", "t.nearsay", "--taxonomy", "tree.csv", "--keywords-column", "words"
                )
            ]
            answers += [_command(name, "t.nearsay") for name in ("mistakes", "duplicates", "next", "history")]
            answers += [_command("label", "t.nearsay", "new.csv"), _command("evaluate", "t.nearsay")]
            answers += [_command("evaluate", "t.nearsay", "--holdout", "0.3")]
            answers += [_command("correct", "t.nearsay", ids[3], "fir"), _command("label", "t.nearsay", "new.csv")]
            answers += _pages(Path("t.nearsay"), ids, X)
            return answers

    yield "commands and pages", lambda: list(facts(commands(), names))


def _plain(thing: Any) -> Any:
    if isinstance(thing, list | tuple):
        return [_plain(each) for each in thing]
    return thing.to_dict() if hasattr(thing, "to_dict") else vars(thing) if hasattr(thing, "__dict__") else thing


def _table(path: Path, ids: list[str], X: np.ndarray, *columns: list[Any]) -> None:
    heads = ["id", *(f"x{number}" for number in range(X.shape[1])), *("species", "words")[: len(columns)]]
    lines = [
        [ids[row], *X[row], *(" ; ".join(c[row]) if isinstance(c[row], list) else c[row] for c in columns)]
        for row in range(len(ids))
    ]
    path.write_text("\n".join(",".join(map(str, line)) for line in [heads, *lines]) + "\n")


def _command(*arguments: str) -> Any:
    from typer.testing import CliRunner

    from nearsay.cli import app

    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code in (0, 1), (arguments, result.output)
    return json.loads(result.stdout)


def _pages(path: Path, ids: list[str], X: np.ndarray) -> list[Any]:
    from starlette.testclient import TestClient

    import nearsay as ns
    from nearsay.web.app import make_app

    collection = ns.LiveCollection.open(path)
    with TestClient(make_app(collection, None), base_url="http://localhost") as client:
        answers = []
        pages = [
            "/ask.json",
            f"/ask.json?id={ids[4].replace(' ', '%20')}",
            "/browse.json",
            "/mistakes.json",
            "/duplicates.json",
        ]
        for page in [*pages, "/next.json", "/history.json", "/review.json", "/map.json", "/labels.json"]:
            answer = client.get(page)
            answers += [page, answer.status_code, answer.json() if answer.status_code == 200 else None]
    collection.close()
    return answers


def main() -> None:
    from threadpoolctl import threadpool_limits

    import nearsay as ns
    from nearsay.core.compiling import start_compiling

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="file for the digests of this version")
    parser.add_argument("--compare", type=Path, help="digests of another version")
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--tiny", action="store_true", help="searches of few rows only")
    options = parser.parse_args()
    start_compiling()
    answers: dict[str, str] = {}
    before = json.loads(options.compare.read_text()) if options.compare else {}
    with threadpool_limits(1), ns.threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for works in (searches,) if options.tiny else (searches, estimators, collections):
            for name, work in works():
                if options.only not in name or (options.tiny and not name.startswith("150x4")):
                    continue
                try:
                    answers[name] = digest(work())
                except Exception as error:  # a name that this version does not have is a difference, not an end
                    answers[name] = f"{type(error).__name__}: {error}"[:200]
                if before and before.get(name) != answers[name]:
                    print(f"DIFFERS  {name}: {before.get(name)} before, {answers[name]} now", flush=True)
    if options.write:
        options.write.write_text(json.dumps(answers, indent=1))
    broken = [name for name, word in answers.items() if ":" in word]
    differing = [name for name in answers if before and before.get(name) != answers[name]]
    print(f"{len(answers)} works, {len(broken)} with an error, {len(differing)} differ.")
    for name in broken:
        print(f"  {name}: {answers[name]}")
    sys.exit(bool(differing or broken))


if __name__ == "__main__":
    main()
