"""The figures of ``figures.run`` as words to print, and as pictures to save."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.displays.drawing import save_figure
from nearsay.metrics.specificity import Breakdown
from reproduce.hedging.displays.breakdown_bars import part_labels
from reproduce.text_table import TextTable

# Accuracies asked for that a printed curve shows; JSON has all of them.
SHOWN = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)

Row = dict[str, Any]


def text_tables(made: Row) -> list[TextTable]:
    """One of the figures that ``figures.run`` made, in print."""
    return TABLES[made["figure"]](made)


def text_notes(made: Row) -> list[str]:
    """How DARTS compares with a fixed threshold, where that was looked at, then the notes of the figure."""
    notes = []
    for one in made.get("compared", []):
        less = one["less_specific"]
        where = f"says less at {less} of" if less else "says no less at any of"
        notes.append(
            f"{one['classifier']}: DARTS {where} the {one['points']:,} operating points of the fixed threshold; the"
            f" smallest difference of gains is {one['least']:+.4f}, at accuracy {one['at_accuracy']:.4f}. The better of"
            f" both rules, as HedgedClassifier takes it, says less at {one['best_less_specific'] or 'none'} of them."
        )
    if made["figure"] == "metrics":
        notes = [words for one in made["summary"] for words in _done_without(one["metric"], made["rows"])]
    return [*notes, *made["notes"]]


def _done_without(metric: str, rows: list[Row]) -> list[str]:
    """Where a learner was no better than the Euclidean distance on held-out rows, and so was not used.

    >>> rows = [{"data": "leaves", "metrics": {"ITML": {"settings": [None, {"gamma": 0.1}]}}}]
    >>> _done_without("ITML", rows)
    ['ITML: the Euclidean distance was kept on leaves (1 of 2 turns).']
    """
    chosen = {row["data"]: row["metrics"][metric]["settings"] for row in rows}
    where = [
        data if of.count(None) == len(of) else f"{data} ({of.count(None)} of {len(of)} turns)"
        for data, of in chosen.items()
        if None in of
    ]
    return [f"{metric}: the Euclidean distance was kept on {', '.join(where)}."] if where else []


def _lambda(made: Row) -> list[TextTable]:
    lines = [
        [
            f"{row['asked']:g}",
            f"{row['lambda']:.6f}",
            f"{row['authors']['lambda']:.6f}",
            *_pair(row),
            f"{row['authors']['test_accuracy']:.4f}",
            f"{row['authors']['test_normalized_gain']:.4f}",
        ]
        for row in made["rows"]
    ]
    heads = ("asked", "λ", "authors'\nλ", "acc", "gain", "authors'\ntest acc", "authors'\ntest gain")
    return [TextTable(_title(made), (), heads, [lines])]


def _promise(made: Row) -> list[TextTable]:
    def key(row: Row) -> tuple[str, float]:
        return row["classifier"], row["asked"]

    lines = []
    for (who, accuracy), both in groupby(sorted(made["rows"], key=key), key=key):
        lines.append([who, f"{accuracy:g}", *(figure for row in both for figure in _pair(row))])
    heads = ("asked", "got", "gain", "got with\nconfidence", "gain with\nconfidence")
    return [TextTable(_title(made), ("classifier",), heads, [lines])]


def _figure_3(made: Row) -> list[TextTable]:
    tables = []
    for who, rows in _by(made["rows"], "classifier").items():
        by_method = _by(rows, "method")
        at = {(row["method"], row["asked"]): " / ".join(_pair(row, ".3f")) for row in rows}
        lines = [[f"{accuracy:g}", *(at[method, accuracy] for method in by_method)] for accuracy in SHOWN]
        heads = tuple(f"{method.replace(', ', chr(10))}\nacc / gain" for method in by_method)
        tables.append(TextTable(f"{_title(made)}, {who}", (), ("asked", *heads), [lines]))
    best = [
        [row["classifier"], row["method"], f"{row['f']:.4f}", f"{row['asked']:g}", *_pair(row)] for row in made["best"]
    ]
    tables.append(TextTable("Best F", ("classifier", "method"), ("F", "asked", "acc", "gain"), [best]))
    return tables


def _figure_4(made: Row) -> list[TextTable]:
    lines = [
        [row["classifier"], row["posterior"], str(row["k"]), f"{row['f']:.4f}", f"{row['asked']:g}", *_pair(row)]
        for row in made["best"]
    ]
    heads = ("k", "best F", "asked", "acc", "gain")
    return [TextTable(_title(made), ("metric", "posterior"), heads, [lines])]


def _figure_5(made: Row) -> list[TextTable]:
    scores = f_by_k(made["rows"])
    ks = dict.fromkeys(row["k"] for row in made["rows"])
    lines = [[str(k), *(f"{by_k[k]:.4f}" for by_k in scores.values())] for k in ks]
    return [TextTable(_title(made), (), ("k", *(who.replace(", ", "\n") for who in scores)), [lines])]


def _figure_6(made: Row) -> list[TextTable]:
    lines = [
        [
            one["classifier"] + (f" ({one['chosen']})" if "chosen" in one else ""),
            f"{one['best_f']:.4f}",
            f"{one['past_gain']:.4f}",
            f"{one['judged_gain']:.4f}",
            *_pair(one["safe"]),
        ]
        for one in made["summary"]
    ]
    heads = ("best F", "training\ngain", "test\ngain", "acc\ngot", "gain\nthere")
    return [TextTable(_title(made), ("classifier",), heads, [lines])]


def _figure_7(made: Row) -> list[TextTable]:
    tables = []
    for who, rows in _by(made["rows"], "classifier").items():
        labels = part_labels(as_breakdown(rows[0]))
        lines = [["wrong", *(f"{row['wrong']:.3f}" for row in rows)]]
        for part in dict.fromkeys(labels):
            levels = [level for level, label in enumerate(labels) if label == part]
            lines.append([part, *(f"{sum(row['shares'][level] for level in levels):.3f}" for row in rows)])
        heads = tuple(bar_name(row).replace(" ", "\n") for row in rows)
        tables.append(TextTable(f"{_title(made)}, {who}", ("answers",), heads, [lines]))
    return tables


def _figure_8(made: Row) -> list[TextTable]:
    methods = ("Flat", "Flat-rej", "DARTS")
    lines = [[*(row[method] for method in methods), row["true"]] for row in made["rows"]]
    return [TextTable(_title(made), (*methods, "true"), (), [lines])]


def _figure_9(made: Row) -> list[TextTable]:
    lines = [
        [row["label"], str(row["rank"]), f"{row['similarity']:.2f}", f"{row['distance']:.3f}"] for row in made["rows"]
    ]
    title = f"{_title(made)}: {made['rows'][0]['true']}" if made["rows"] else _title(made)
    return [TextTable(title, ("neighbor",), ("rank", "similarity", "distance"), [lines])]


def _table_1(made: Row) -> list[TextTable]:
    measures = ("accuracy_percent", "similarity_percent")
    flat, hedged = [], []
    for row in made["rows"]:
        pairs = [(row[whose] or {}).get(measure) for measure in measures for whose in ("ours", "paper")]
        flat.append([row["classifier"], *("" if number is None else f"{number:.2f}" for number in pairs)])
        scores = [
            (row[how] or {}).get(method) for method in ("DARTS", "FLAT-REJ") for how in ("best_f", "best_f_atiya")
        ]
        hedged.append([row["classifier"], *("" if score is None else f"{score:.4f}" for score in scores)])
    heads = ("accuracy %", "paper's\naccuracy %", "similarity %", "paper's\nsimilarity %")
    tables = [TextTable(_title(made), ("classifier",), heads, [flat])]
    heads = ("DARTS", "DARTS,\nAtiya", "FLAT-REJ", "FLAT-REJ,\nAtiya")
    return [*tables, TextTable(f"Best F ({made['data']})", ("classifier",), heads, [hedged])]


def _metrics(made: Row) -> list[TextTable]:
    """A line for every set; where there are several, what holds on all of them stands below."""
    rows, summary = made["rows"], made["summary"]
    sections = []
    for row in rows:
        measured = [row["metrics"][one["metric"]] for one in summary]
        cells = [f"{one['accuracy_percent']:.2f}\n{one['gain_percent']:+.2f}" for one in measured]
        error = max(one["error_percent"] for one in measured)
        sections.append([[row["data"], f"{row['euclidean_percent']:.2f}", *cells, f"{error:.1f}"]])
    if len(rows) > 1:
        never_below = ["yes" if one["never_below"] else "no" for one in summary]
        above = [f"{one['clearly_above']} of {len(rows)}" for one in summary]
        sections.append([["never below", "", *never_below, ""], ["2 points above", "", *above, ""]])
    heads = ("Euclidean", *(one["metric"].replace(", ", "\n") for one in summary), "±")
    return [TextTable(_title(made), ("data",), heads, sections)]


def _ours(made: Row) -> list[TextTable]:
    lines = [
        [one["classifier"], one["rule"], f"{one['judged_gain']:.4f}", *_pair(one), f"{one['seconds']:.0f}"]
        for one in made["summary"]
    ]
    heads = ("test\ngain", "acc\ngot", "gain\nthere", "seconds\nto fit")
    return [TextTable(_title(made), ("classifier", "rule"), heads, [lines])]


def _splits(made: Row) -> list[TextTable]:
    sections = [
        [[what, f"{row['asked']:g}", f"{row['accuracy']:.4f}", *_kept(row)] for row in rows]
        for what, rows in _by(made["rows"], "what").items()
    ]
    heads = ("asked", "got", "kept by\nall rows", "kept by\nrows left over")
    return [TextTable(_title(made), ("in each split",), heads, sections)]


def _sets(made: Row) -> list[TextTable]:
    sections = [
        [
            [
                row["answer"],
                f"{row['asked']:g}",
                f"{row['coverage']:.4f}",
                f"{row['bits']:.3f}",
                "" if row["more_bits"] is None else f"{100 * row['more_bits']:+.1f}",
                f"{row['leaves']:.1f}",
                f"{row['nodes']:.2f}",
            ]
            for row in rows
        ]
        for rows in _by(made["rows"], "classifier").values()
    ]
    names = " and ".join(_by(made["rows"], "classifier"))
    heads = ("asked", "covered", "bits", "more\n%", "leaves", "nodes")
    return [TextTable(f"{_title(made)}: {names}", ("answer",), heads, sections)]


def _risk(made: Row) -> list[TextTable]:
    lines = [
        [row["classifier"], row["probabilities"], row["rule"], f"{row['haurc']:.4f}", f"{row['above_climbing']:+.4f}"]
        for row in made["rows"]
    ]
    heads = ("hAURC", "most above\nclimbing")
    return [TextTable(_title(made), ("classifier", "probabilities", "rule"), heads, [lines])]


def _kept(row: Row) -> list[str]:
    shares = (row["kept_by_all"], row["kept_by_rows_left_over"])
    return ["" if share is None else f"{share:.3f}" for share in shares]


TABLES: dict[str, Callable[[Row], list[TextTable]]] = {
    "lambda": _lambda,
    "promise": _promise,
    "3": _figure_3,
    "4": _figure_4,
    "5": _figure_5,
    "6": _figure_6,
    "7": _figure_7,
    "8": _figure_8,
    "9": _figure_9,
    "table1": _table_1,
    "metrics": _metrics,
    "ours": _ours,
    "splits": _splits,
    "sets": _sets,
    "risk": _risk,
}


def _title(made: Row) -> str:
    return f"{made['title']} ({made['data']})"


def _pair(row: Row, form: str = ".4f") -> tuple[str, str]:
    return format(row["accuracy"], form), format(row["normalized_gain"], form)


def _by(rows: list[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows by what they have in ``keys``, in the order of the first of each; one key is not wrapped."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        who = tuple(row[key] for key in keys)
        groups.setdefault(who if len(keys) > 1 else who[0], []).append(row)
    return groups


def f_by_k(rows: list[Row]) -> dict[str, dict[int, float]]:
    """The rows of Figure 5 as FScoreDisplay takes them: {method: {k: F}}.

    >>> f_by_k([{"classifier": "Euclidean", "method": "DARTS", "k": 5, "f": 0.6}])
    {'Euclidean, DARTS': {5: 0.6}}
    """
    return {", ".join(who): {row["k"]: row["f"] for row in of} for who, of in _by(rows, "classifier", "method").items()}


def as_breakdown(row: Row) -> Breakdown:
    """A row of Figure 7 as BreakdownDisplay takes it."""
    return Breakdown(row["wrong"], np.array(row["information"]), np.array(row["shares"]), tuple(row["names"]))


def bar_name(row: Row) -> str:
    """What stands under a bar of Figure 7."""
    return row["method"] if row["method"] == "FLAT" else f"{row['method']} {row['asked']:g}"


# ------------------------------------------------------------------ pictures


def draw(result: Row, folder: Path) -> list[str]:
    """Save those figures of a result of ``figures.run`` that are pictures in a folder, made if need be: the files."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for made in result["figures"]:
        if made["figure"] in PICTURES and made["rows"]:
            for suffix, display in PICTURES[made["figure"]](made).items():
                path = folder / f"hedging-{made['figure']}-{made['data']}{suffix}.png"
                save_figure(display.figure_, path, dpi=100, bbox_inches="tight")
                written.append(str(path))
    return written


def _draw_curves(made: Row) -> dict[str, Any]:
    """One picture; with several metrics one for each method, or for each metric where there are several k."""
    rows = made["rows"]
    several = [key for key in ("method", "k") if len({row.get(key) for row in rows}) > 1]
    if not several or len(_by(rows, "classifier")) == 1:
        return {"": _curves(rows)}
    split = _by(rows, "method" if "method" in several else "classifier")
    return {f"-{who.replace(', ', '-').replace(' ', '-')}": _curves(some) for who, some in split.items()}


def _curves(rows: list[Row]) -> Any:
    from nearsay.displays.hedging.specificity_curve import AccuracySpecificityDisplay

    keys = [key for key in ("classifier", "posterior", "k", "method") if len({row.get(key) for row in rows}) > 1]
    curves = {
        ", ".join(map(_word, (who,) if len(keys) == 1 else who)): (
            np.array([row["accuracy"] for row in some]),
            np.array([row["normalized_gain"] for row in some]),
        )
        for who, some in _by(rows, *keys).items()
    }
    return AccuracySpecificityDisplay.from_curves(curves)


def _word(value: Any) -> str:
    return f"k = {value}" if isinstance(value, int) else str(value)


def _draw_f_scores(made: Row) -> dict[str, Any]:
    from reproduce.hedging.displays.f_against_k import FScoreDisplay

    return {"": FScoreDisplay.from_scores(f_by_k(made["rows"]))}


def _draw_bars(made: Row) -> dict[str, Any]:
    from reproduce.hedging.displays.breakdown_bars import BreakdownDisplay

    by_classifier = _by(made["rows"], "classifier")
    return {
        f"-{who}" if len(by_classifier) > 1 else "": BreakdownDisplay.from_breakdowns(
            {bar_name(row): as_breakdown(row) for row in rows}
        )
        for who, rows in by_classifier.items()
    }


def _draw_answers(made: Row) -> dict[str, Any]:
    from reproduce.hedging.displays.hedged_answers import HedgedAnswersDisplay

    display = HedgedAnswersDisplay(methods=("Flat", "Flat-rej", "DARTS"), rows=made["rows"])
    return {"": display.plot()}


def _draw_neighbors(made: Row) -> dict[str, Any]:
    from nearsay.posterior.classifier import NeighborClassifier
    from reproduce.hedging.displays.similar_neighbors import SimilarNeighborsDisplay
    from reproduce.hedging.tin200 import load_images

    images, query = load_images(), made["rows"][0]["query"]
    fitted = NeighborClassifier(len(made["rows"]), posterior="proportional").fit(images.train.X, images.train.y)
    display = SimilarNeighborsDisplay.from_estimator(
        fitted,
        images.test.X[query],
        np.asarray(images.test.y)[query],
        taxonomy=images.taxonomy,
    )
    return {"": display}


PICTURES: dict[str, Callable[[Row], dict[str, Any]]] = {
    "3": _draw_curves,
    "4": _draw_curves,
    "5": _draw_f_scores,
    "6": _draw_curves,
    "7": _draw_bars,
    "8": _draw_answers,
    "9": _draw_neighbors,
    "ours": _draw_curves,
}
