"""A fuzzer of saved files: ``python -m benchmarks.hostile_files [--cases 100000] [--seed 0] [--compiled] [--tiny]``.

    honest files of every estimator ──► types, names, sizes, references, arrays or the archive changed ──► nearsay.load
                                                                                      └─ what opens is asked as usual

Each case runs in a worker process whose every ``open``, ``import``, connection and start of a program is heard by an
audit hook. A case fails that does any of these on the file's behalf, takes more than 2 seconds or 300 MB, raises
anything but a SavedFileError of one line, reads outside an array in a loop that would be compiled, or kills the worker.
Seconds are of the processor, without compiling: a case that takes longer runs once more, and the shorter time counts.
``--compiled`` runs these loops compiled, where such a read goes unseen or kills.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import inspect
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, MEGABYTES = 2.0, 300
CASES, TINY_CASES = 2000, 10
JSON = "nearsay.json"

# ------------------------------------------------------------------ honest files

RANDOM = np.random.default_rng(0)
N = 24
LABELS = np.arange(N) % 3
ROWS = (RANDOM.normal(size=(N, 4)) + 2 * np.eye(4)[LABELS]).round(3)
QUERIES = np.concatenate([ROWS[:3] + 0.1, ROWS[:1]])
NAMES = np.array(["corgi", "poodle", "cat"])[LABELS]
WORDS = np.eye(3, dtype=int)[LABELS]
WORDS[::4, 0] = 1


def honest() -> dict[str, Callable[[], Any]]:
    """What is saved, by name: every estimator, and what a collection learns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import nearsay as ns
    from nearsay.collection.state.learned import Learned
    from nearsay.search import ApproximateSearch

    pets = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    votes = ns.NeighborClassifier(3, posterior="proportional")
    groups = {"a": slice(0, 2), "b": slice(2, 4)}

    def classifier(**settings: Any) -> Any:
        return ns.NeighborClassifier(3, **settings).fit(ROWS, NAMES)

    def changed() -> Any:
        index = ns.NeighborIndex(search="kd").fit(ROWS)
        index.add(ROWS[:2] + 0.5)
        return index.remove([1])

    def learned(posterior: str = "pooled") -> Any:
        numbers = np.arange(N)
        found = Learned.from_rows(
            ROWS, LABELS, numbers, n_store_rows=N, version=1, posterior=posterior, n_neighbors=3,
        )  # fmt: skip
        found.learn_keywords(ROWS, [["sky"], ["sea"], ["sky", "sun"]] * (N // 3), numbers, N)
        return found

    made: dict[str, Callable[[], Any]] = {
        f"posterior {name}": lambda name=name: classifier(posterior=name) for name in ns.posterior.POSTERIORS
    }
    made |= {
        "weighted rows": lambda: ns.NeighborClassifier(3, posterior="rank&votesplit").fit(
            ROWS, NAMES, sample_weight=np.arange(N) % 4
        ),
        "asked": lambda: asked(classifier(posterior="pooled", priors="uniform", metric="cosine"), {}),
        "beside": lambda: classifier(posterior="pooled", beside=LogisticRegression()),
        "fused": lambda: ns.FusedClassifier(groups, ns.NeighborClassifier(3, posterior="rank")).fit(ROWS, NAMES),
        "hedged": lambda: ns.HedgedClassifier(votes, pets, 0.8).fit(ROWS, NAMES),
        "hedged folds": lambda: ns.HedgedClassifier(LogisticRegression(), pets, 0.8, cv=3).fit(ROWS, NAMES),
        "hedged model": lambda: ns.HedgedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(
            ROWS, NAMES
        ),
        "sets": lambda: ns.ConformalClassifier(votes, 0.8).fit(ROWS, NAMES),
        "index": lambda: ns.NeighborIndex().fit(ROWS),
        "changed index": changed,
        "labeled": lambda: ns.NeighborIndex("manhattan").fit(ROWS).with_labels(LABELS),
        "mahalanobis": lambda: ns.NeighborIndex("mahalanobis", metric_params={"M": np.diag([1.0, 2, 3, 4])}).fit(ROWS),
        "products": lambda: ns.InnerProductIndex().fit(ROWS),
        "taxonomy": lambda: pets.with_prior([0.5, 0.2, 0.3]),
        "table": lambda: ns.NeighborIndex().fit(ROWS).with_labels(LABELS).leave_one_out(3, (1,)),
        "metric": lambda: ns.WithinClassWhitening().fit(ROWS, NAMES),
        "itml": lambda: ns.ITML(taxonomy=pets).fit(ROWS, NAMES),
        "keywords": lambda: ns.KeywordAnnotator("nearest", n_neighbors=3).fit(ROWS, WORDS),
        "several scorers": lambda: ns.KeywordAnnotator(
            [ns.annotate.JointNeighbors(groups), ns.annotate.KeywordRegression()], n_neighbors=3, order="worth"
        ).fit(ROWS, WORDS),
        "auto keywords": lambda: ns.KeywordAnnotator(n_neighbors=3).fit(ROWS, WORDS),
        "rank boost": lambda: ns.RankBoostNeighbors(groups, max_iter=5).fit(ROWS, WORDS),
        "two passes": lambda: ns.annotate.TwoPassNeighbors().fit(ROWS, WORDS),
        "ml-knn": lambda: ns.annotate.MLkNN(3).fit(ROWS, WORDS),
        "learned": learned,
        "learned, ranks": lambda: learned("confmat&rank"),
    }
    try:
        import faiss  # noqa: F401

        made["hnsw"] = lambda: ns.NeighborIndex(search=ApproximateSearch(kind="hnsw")).fit(ROWS)
    except ImportError:
        pass
    return made


def asked(thing: Any, raised: dict[str, BaseException]) -> Any:
    """Ask whatever can be asked; errors go into ``raised`` by what was asked."""
    questions: dict[str, Callable[[], Any]] = {
        name: lambda name=name: getattr(thing, name)(QUERIES)
        for name in ("predict_proba", "predict", "explain", "transform", "annotate", "scores", "predict_set")
        if hasattr(thing, name)
    }
    if hasattr(thing, "query"):
        questions["query"] = lambda: thing.query(QUERIES, 3)
    if hasattr(thing, "leave_one_out"):
        questions["leave_one_out"] = lambda: thing.leave_one_out(3)
    elif hasattr(thing, "neighbors") and callable(thing.neighbors):
        questions["neighbors"] = lambda: thing.neighbors(QUERIES, 3)
    if hasattr(thing, "leave_one_out_proba"):
        questions["leave_one_out_proba"] = lambda: thing.leave_one_out_proba()
    if type(thing).__name__ == "Learned":
        questions["collection"] = lambda: _over_rows(thing)
    for name, question in questions.items():
        try:
            question()
        except Exception as error:
            raised[name] = error
    return thing


def _over_rows(learned: Any) -> None:
    """Answer as a collection does that has learned this."""
    from nearsay.collection.state.live_views import LiveViews

    views = LiveViews.of(learned.all_transforms, learned.voters(np.ones(N, bool), LABELS, 3), lambda: ROWS)
    classes, ids = np.array(["cat", "corgi", "poodle"]), np.arange(N).astype(str)
    some = LiveViews(views.views[: len(learned.transforms)], views.all_rows)
    answers = learned.classifier(some, classes, ids, lambda k: some.leave_one_out(k), np.full(N, np.nan))
    answers.predict_proba(QUERIES)


# ------------------------------------------------------------------ changed files


class Saved:
    """A saved file in parts that can be changed: the JSON, and the arrays by name."""

    def __init__(self, content: bytes) -> None:
        text, arrays = _parts(content)
        self.contents = json.loads(text)
        self.arrays: dict[str, Any] = {name: array.copy() for name, array in arrays.items()}

    def bytes(self, *, lies: dict[str, dict[str, Any]] | None = None, compress: bool = False) -> bytes:
        """The file again, with true checksums; ``lies`` are said of arrays in its table of contents."""
        out = io.BytesIO()
        listed = {}
        packing = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        with zipfile.ZipFile(out, "w", packing) as archive:
            for name, array in self.arrays.items():
                member = io.BytesIO()
                np.lib.format.write_array(member, np.ascontiguousarray(array).reshape(array.shape), version=(1, 0))
                sha256 = hashlib.sha256(member.getvalue()).hexdigest()
                listed[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": sha256}
                archive.writestr(f"arrays/{name}.npy", member.getvalue())
            for name, lie in (lies or {}).items():
                listed.setdefault(name, {}).update(lie)
            archive.writestr(JSON, json.dumps({**self.contents, "arrays": listed}))
        return out.getvalue()


@lru_cache(maxsize=100)
def _parts(content: bytes) -> tuple[bytes, dict[str, np.ndarray]]:
    """The JSON and the arrays of a file; each honest file is taken apart once."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read(JSON)
        names = json.loads(text)["arrays"]
        return text, {name: np.load(io.BytesIO(archive.read(f"arrays/{name}.npy"))) for name in names}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to every value in some JSON."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


WHOLE = [0, 1, -1, 2, 3, 7, N, N + 1, 255, -(2**31), 2**31 - 1, 2**31, 2**62, -(2**63), 2**63, 2**70, 10**400]
ODD: list[Any] = [
    None, True, False, *WHOLE, 0.5, -0.0, 1e308, -1e308, 1e-320, "", "x", "nan", "auto", "euclidean", "precomputed",
    "\u202e\x1b[2J\n", "x" * 5000, "http://127.0.0.1:9/rows.npy", "tcp://127.0.0.1:9", "/etc/passwd",
    "file:///etc/passwd", [], {}, [[]], {"tuple": []}, {"set": [[]]}, {"dict": [[[], 1]]},
    {"tuple": {"tuple": []}}, {"range": [0, 10**9, 1]},
    {"float": "nan"}, {"float": "inf"}, {"float": "1e5"}, {"slice": [None, None, 0]}, {"slice": [0, 2**62, 1]},
    {"objects": [], "shape": [0, 2**40]}, {"objects": [1], "shape": [-1]}, {"dtype": "O"}, {"scalar": 0}, {"array": 0},
    {"array": 1, "order": "F"}, {"again": 0}, {"again": 1}, {"snapshot": 1}, {"snapshot": 0},
    {"random_state": {"dict": []}},
]  # fmt: skip
CLASSES = [
    "os:system", "builtins:eval", "subprocess:Popen", "nearsay.neighbors.sharded.sharded_index:ShardedIndex",
    "ShardedIndex", "Store",
    "nearsay.neighbors.sharded.dask_cluster:DaskCluster", "nearsay.search.approximate:Graph", "antigravity", "this:s",
    "",
    "DaskCluster",
    "nearsay.collection.live:LiveCollection", "sklearn.preprocessing:FunctionTransformer", "FunctionDistance",
]  # fmt: skip


def _set(saved: Saved, path: tuple[Any, ...], value: Any) -> None:
    if path:
        at(saved.contents, path[:-1])[path[-1]] = value


def change_json(saved: Saved, others: list[Saved], rng: random.Random) -> None:
    """One value, name or reference is another one."""
    header = ("header",)
    path = rng.choice(places(at(saved.contents, header), header))
    value = at(saved.contents, path)
    ways: list[Callable[[], Any]] = [lambda: _set(saved, path, copy.deepcopy(rng.choice(ODD)))]

    def transplant() -> None:
        other = rng.choice([saved, *others])
        _set(saved, path, copy.deepcopy(at(other.contents, rng.choice(places(at(other.contents, header), header)))))

    def wrap() -> None:
        kind = rng.choice(["tuple", "set", "list", "dict", "scalar", "random_state", "slice"])
        _set(saved, path, [value] if kind == "list" else {kind: value if rng.random() < 0.5 else [value]})

    ways += [transplant, wrap]
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        ways += [lambda: value.pop(key), lambda: value.update({rng.choice([*value, "__class__", "x", "_workers"]): 1})]
        ways += [lambda: value.update({f"{key}_": value.pop(key)})]
    if isinstance(value, list) and value:
        number = rng.randrange(len(value))
        ways += [lambda: value.pop(number), lambda: value.append(copy.deepcopy(value[number])), lambda: value.reverse()]
        ways += [lambda: value.extend(copy.deepcopy(value) * rng.choice([1, 20]))]
    if type(value) is int:
        ways += [lambda: _set(saved, path, rng.choice([value + 1, value - 1, -value, value * 1000, *WHOLE]))] * 4
    if isinstance(value, float):
        ways += [lambda: _set(saved, path, rng.choice([-value, value * 1e30, {"float": "nan"}, {"float": "-inf"}]))] * 2
    if path[-1] == "class":
        ways += [lambda: _set(saved, path, rng.choice([*CLASSES, *_known_classes()]))] * 6
    if isinstance(value, dict) and "sparse" in value:
        ways += [lambda: _set(saved, (*path, "shape", rng.randrange(2)), rng.choice(WHOLE))] * 4
    rng.choice(ways)()


def _known_classes() -> list[str]:
    from nearsay.data.saved.savable import SAVABLE

    return list(SAVABLE)


def deepen(saved: Saved, others: list[Saved], rng: random.Random) -> None:
    """Lists in lists."""
    deep: Any = []
    for _ in range(rng.choice([90, 300, 700])):
        deep = [deep] if rng.random() < 0.5 else {"tuple": [deep]}
    path = rng.choice(places(saved.contents["header"], ("header",)))
    _set(saved, path, deep)


def change_array(saved: Saved, others: list[Saved], rng: random.Random) -> None:
    """One array has other numbers, another shape or another type."""
    if not saved.arrays:
        return
    name = rng.choice(list(saved.arrays))
    array = saved.arrays[name]

    def some_number() -> np.ndarray:
        changed = array.copy()
        if changed.size:
            flat = changed.reshape(-1)
            kind = changed.dtype.kind
            if kind in "iu":
                ends = np.iinfo(changed.dtype)
                choices = [ends.min, ends.max, int(flat.max()) + 1, -1, -2, N, N * 1000]
                number = min(max(rng.choice(choices), ends.min), ends.max)
            else:
                number = rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300]) if kind == "f" else flat[0]
            with np.errstate(over="ignore"):
                flat[rng.randrange(len(flat)) if rng.random() < 0.7 else slice(None)] = number
        return changed

    ways: list[Callable[[], np.ndarray]] = [some_number] * 4
    ways += [lambda: array[:0], lambda: array[..., None], lambda: array.reshape(-1), lambda: array.T]
    ways += [lambda: np.zeros(rng.choice([(0, 2**19), (2**16,), (3, 0, 5), ()]), array.dtype)]
    ways += [lambda: array.astype(rng.choice(["i8", "f8", "f4", "?", "U3", "S2", "u1", ">f8", "i2"]))]
    ways += [lambda: rng.choice([*saved.arrays.values(), *rng.choice(others).arrays.values(), array])]
    if array.ndim:
        ways += [lambda: array[:-1], lambda: np.concatenate([array, array[-1:]]), lambda: array[..., :-1]]
        ways += [lambda: np.concatenate([array, array], axis=-1), lambda: array[::-1]]
    try:
        saved.arrays[name] = np.asarray(rng.choice(ways)())
    except (ValueError, TypeError, IndexError):
        saved.arrays[name] = array[:0] if array.ndim else array


def lied(saved: Saved, rng: random.Random) -> bytes:
    """The table of contents says something else of an array."""
    name = rng.choice([*saved.arrays, "0"])
    lies: list[dict[str, Any]] = [
        {"dtype": dtype}
        for dtype in ("<U0", "|V0", "|O", "(1000,1000)f8", "f8,f8", "<f16", ">f8", "<U999999999", "|S0")
    ]
    lies += [{"shape": shape} for shape in ([2**40], [-1], [0, 2**62], [1.5], "x", [1] * 70, [10**400], [], [2**31, 0])]
    lies += [{"sha256": "0" * 64}, {"sha256": None}, {"dtype": "<U0", "shape": [2**40]}]
    return saved.bytes(lies={name: rng.choice(lies)})


@lru_cache
def _bomb() -> bytes:
    """A small archive of a large text."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(JSON, b" " * (1 << 24))
    return out.getvalue()


def torn(saved: Saved, rng: random.Random) -> bytes:
    """The archive itself is another one."""
    content = bytearray(saved.bytes())

    def flipped() -> bytes:
        for _ in range(rng.choice([1, 3, 20])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        return bytes(content)

    def cut() -> bytes:
        return bytes(content[: rng.randrange(len(content))])

    def directory() -> bytes:
        start = content.rfind(b"PK\x05\x06")
        for _ in range(rng.choice([1, 2, 4])):
            content[rng.randrange(max(0, start - 400), len(content))] = rng.randrange(256)
        return bytes(content)

    def raw_json() -> bytes:
        out = io.BytesIO()
        depth = 10 ** rng.choice([2, 3, 5])
        text = rng.choice(["[" * depth + "]" * depth, '{"a":' * depth, "NaN", '{"format": 1e999}', "9" * 10**4, ""])
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(JSON, text)
        return out.getvalue()

    def twice() -> bytes:
        out = io.BytesIO(content)
        with warnings.catch_warnings(), zipfile.ZipFile(out, "a") as archive:
            warnings.simplefilter("ignore")
            archive.writestr(rng.choice([JSON, "arrays/0.npy", "../../escaped", "/etc/x", "arrays/99.npy"]), b"{}")
        return out.getvalue()

    return rng.choice([flipped, cut, directory, _bomb, raw_json, twice, lambda: saved.bytes(compress=True)])()


def case(honest_files: list[bytes], rng: random.Random) -> bytes:
    """A changed file."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # writing what is nested deeper than anyone would read
    try:
        saved = Saved(rng.choice(honest_files))
        others = [Saved(rng.choice(honest_files))]
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            rng.choices([change_json, change_array], [10, 8])[0](saved, others, rng)
        way = rng.random()
        if way < 0.03:
            deepen(saved, others, rng)
        if 0.03 < way < 0.09:
            return lied(saved, rng)
        return torn(saved, rng) if way > 0.94 else saved.bytes()
    finally:
        sys.setrecursionlimit(usual)


# ------------------------------------------------------------------ a worker

HEARD = [
    "socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
    "os.fork", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "os.remove", "os.mkdir", "os.rename", "os.link",
    "os.symlink", "os.truncate", "os.chmod", "shutil.rmtree", "exec", "compile", "import", "open",
]  # fmt: skip


class Ears:
    """Hears what a case does beyond its own file."""

    def __init__(self, own: str) -> None:
        self.own, self.listening = own, False
        self.heard: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening or event not in HEARD:
            return
        if event == "open" and arguments[0] == self.own and arguments[1] in ("rb", "r"):
            return
        if event == "import" and arguments[0] in sys.modules:
            return
        # Source lines that a warning or an error shows.
        if event == "open" and str(arguments[0]).endswith(".py"):
            return
        # Loops that are compiled, or were before: numba reads and writes beside their source. And ``inspect`` parses
        # what a built-in function says of its own arguments, as "def foo(…): pass".
        frame: Any = sys._getframe(1)
        while frame is not None:
            if f"{os.sep}numba{os.sep}" in frame.f_code.co_filename:
                return
            if event == "compile" and frame.f_code is inspect._signature_fromstr.__code__:
                return
            frame = frame.f_back
        self.heard.append(f"{event} {str(arguments)[:200]}")


def peak_megabytes() -> float:
    """The most memory since ``forget_peak``, where the system tells; otherwise ever."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def faults_of(content: bytes, path: str, ears: Ears, *, again: bool = False) -> list[str]:
    """What is wrong with how a file was taken; nothing if all is well."""
    import nearsay as ns
    from nearsay.errors import MissingExtra, SavedFileError

    Path(path).write_bytes(content)
    found: list[str] = []
    raised: dict[str, BaseException] = {}
    ears.heard.clear()
    forget_peak()
    before, start = peak_megabytes(), time.process_time()
    ears.listening = True
    try:
        asked(ns.load(path), raised)
    except (SavedFileError, MissingExtra) as error:
        if not str(error).isprintable() or "MemoryError" in str(error) or "RecursionError: " in str(error):
            found.append(f"says {str(error)[:300]!r}")
    except BaseException:
        found.append("raises " + traceback.format_exc()[-1500:])
    finally:
        ears.listening = False
    seconds, megabytes = time.process_time() - start, peak_megabytes() - before
    for name, error in raised.items():
        frames = traceback.extract_tb(error.__traceback__)
        in_loop = isinstance(error, IndexError) and frames[-1].filename.endswith("_kernels.py")
        if in_loop or isinstance(error, MemoryError | RecursionError | SystemError):
            found.append(f"{name}: {type(error).__name__} {error} in {frames[-1].filename}:{frames[-1].lineno}")
    found += [f"does {heard}" for heard in ears.heard]
    if seconds > SECONDS and not again:  # it may have compiled loops, which it does once
        return [*found, *(fault for fault in faults_of(content, path, ears, again=True) if fault not in found)]
    if seconds > SECONDS:
        found.append(f"takes {seconds:.1f} s")
    if megabytes > MEGABYTES:
        found.append(f"takes {megabytes:.0f} MB")
    return found


def work(folder: Path, first: int, last: int, seed: int, *, compiled: bool) -> None:
    """Run some cases; writes each failure as a line of JSON, and the number of the case before it starts."""
    from importlib import import_module

    import nearsay as ns
    from nearsay.core import compiling
    from nearsay.data.saved.savable import SAVABLE

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files = [path.read_bytes() for path in sorted(folder.glob("*.nearsay"))]
    modules = {savable.where.partition(":")[0] for savable in SAVABLE.values()}
    source = Path(ns.__file__).parent
    loops = {".".join(path.relative_to(source.parent).with_suffix("").parts) for path in source.rglob("*_kernels.py")}
    for module in sorted(modules | loops):
        import_module(module)
    own = str(folder / f"case-{first}")
    ears = Ears(own)
    with compiling.forced(compiled):
        for content in files:  # what is imported or compiled on first use
            faults_of(content, own, ears)
        for number in range(20):
            faults_of(case(files, random.Random(-1 - number)), own, ears)
        with open(folder / f"log-{first}", "w", buffering=1) as log:
            for number in range(first, last):
                log.write(f"{number}\n")
                content = case(files, random.Random(seed * 10**9 + number))
                for fault in faults_of(content, own, ears):
                    log.write(json.dumps({"case": number, "fault": fault}) + "\n")
            log.write("done\n")


# ------------------------------------------------------------------ all of them


def write_honest(folder: Path) -> None:
    """Save what there is to save."""
    import nearsay as ns

    warnings.simplefilter("ignore")
    for number, make in enumerate(honest().values()):
        ns.save(make(), folder / f"{number:02}.nearsay")


def run(cases: int, seed: int = 0, *, compiled: bool = False, at_once: int = 5000, tell: Any = None) -> list[str]:
    """Run so many cases in worker processes, one after the other; gives what went wrong."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_honest(folder)
        first = told = 0
        while first < cases:
            last = min(cases, first + at_once)
            options = [str(folder), str(first), str(last), str(seed), *(["compiled"] if compiled else [])]
            command = [sys.executable, "-m", "benchmarks.hostile_files", "--work", *options]
            done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[1])
            log = folder / f"log-{first}"
            lines = log.read_text().splitlines() if log.exists() else []
            faults += [line for line in lines if line.startswith("{")]
            if not lines or lines[-1] != "done":
                numbers = [int(line) for line in lines if line.isdigit()]
                last = numbers[-1] + 1 if numbers else last
                faults.append(f"case {last - 1} ended the worker ({done.returncode}): {done.stderr[-1500:]}")
            first = last
            if tell is not None:
                tell(first, faults[told:])
                told = len(faults)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--work", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        folder, first, last, seed, *more = given.work
        work(Path(folder), int(first), int(last), int(seed), compiled=bool(more))
        return 0

    def tell(done: int, faults: list[str]) -> None:
        print(f"{done:,} cases", *faults, sep="\n", flush=True)

    start = time.perf_counter()
    faults = run(TINY_CASES if given.tiny else given.cases, given.seed, compiled=given.compiled, tell=tell)
    print(f"{given.cases if not given.tiny else TINY_CASES:,} cases, {len(faults)} faults, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    return bool(faults)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
