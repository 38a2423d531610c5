"""The report of an evaluation as one self-contained HTML file, without scripts.

All figures come from a summary (``evaluation_summary``); what it does not have is left out.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from nearsay.data.replacing import as_text, replacing
from nearsay.describe.texts.shared_words import marked_parts, words_of
from nearsay.errors import InputError
from nearsay.reports.svg_charts import curve_svg, reliability_svg

STYLE = Path(__file__).with_name("report.css")
CLASSES_SHOWN = 12
NEIGHBORS_SHOWN = 10
LINES_SHOWN = 2
# Characters of a text.
LETTERS_SHOWN = 300
# The first bytes of the pictures that browsers show.
PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
CALIBRATED, ALMOST = 0.03, 0.08
NO_BREAK = "\u00a0"


def write_report(path: str | os.PathLike[str], summary: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write one self-contained HTML file with the figures of an evaluation.

    Parameters
    ----------
    path
        The file to write; an existing one is kept unless ``overwrite``.
    summary : dict
        From ``evaluation_summary``. With ``curve`` (from ``hedging_points``) the trade-off of hedged answers is drawn.
        A mistake may have a ``picture``: the bytes of a PNG, JPEG, GIF or WebP file; it and its neighbors may have an
        ``item_text``.
    """
    check_free(path, overwrite=overwrite)
    page = report_html(summary)
    with replacing(Path(path)) as out, as_text(out) as text:
        text.write(page)


def check_free(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise an error if the file exists, unless ``overwrite``."""
    if Path(path).exists() and not overwrite:
        raise InputError(f"{Path(path).name} exists already. Pass overwrite=True to replace it, or name another file.")


def report_html(summary: Mapping[str, Any]) -> str:
    """The page itself."""
    sections = [
        _head(summary),
        _tiles(summary),
        '<div class="pair">',
        _calibration(summary),
        _hedging(summary.get("hedging"), summary.get("curve")),
        "</div>",
        '<div class="pair">',
        _classes(summary.get("classes", [])),
        _confused(summary.get("confused", [])),
        "</div>",
        _keywords(summary.get("keywords")),
        _mistakes(summary.get("mistakes", [])),
    ]
    title = escape(str(summary.get("title") or "Evaluation"))
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # A script injected by a label or an id would not run, nor load anything.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        " style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in sections if part)
        + "\n</main>\n<footer>Made with nearsay.</footer>\n</body>\n</html>\n"
    ).replace('<div class="pair">\n</div>\n', "")


# ------------------------------------------------------------------ sections


def _head(summary: Mapping[str, Any]) -> str:
    title, how = str(summary.get("title") or "How good are the answers?"), str(summary.get("how") or "")
    sentence = ""
    if "accuracy" in summary:
        n, right = summary.get("n_items", 0), summary.get("n_right", 0)
        sentence = f"{right:,} of {n:,} answers were right: <strong>{escape(_percent(summary['accuracy']))}</strong>."
        base = summary.get("always_the_most_common")
        if base is not None:
            sentence += f" Always naming the most common class would be right in {escape(_percent(base))}."
    method = f'<p class="how">{escape(how)}</p>' if how else ""
    return f'<header><h1>{escape(title)}</h1>{method}<p class="lead">{sentence}</p></header>'


def _tiles(summary: Mapping[str, Any]) -> str:
    tiles = []
    if "accuracy" in summary:
        low, high = summary.get("accuracy_range", (None, None))
        sure = "" if low is None else f"{_percent(low)} to {_percent(high)} (95 % interval)"
        tiles.append(("Accuracy", _percent(summary["accuracy"]), sure))
    if "calibration_error" in summary:
        error = summary["calibration_error"]
        verdict = "well calibrated" if error <= CALIBRATED else "fairly calibrated" if error <= ALMOST else "off"
        text = f"probabilities are {verdict}: off by {_percent(error)} on average"
        tiles.append(("Calibration error", f"{error:.3f}", text))
    if "mean_log_posterior" in summary:
        value = summary["mean_log_posterior"]
        tiles.append(("Log posterior", _signed(value), "mean log of the probability of the true class; 0 is perfect"))
    hedged = (summary.get("hedging") or {}).get("at_requested")
    if hedged:
        text = f"of the information of a leaf, at an accuracy of {_percent(hedged['accuracy'])}"
        tiles.append(("Hedged answers, gain", _percent(hedged["gain"]), text))
    if summary.get("keywords"):
        measures = summary["keywords"]
        text = f"precision {_percent(measures['precision'])}, recall {_percent(measures['recall'])}"
        tiles.append(("Keywords, F1", f"{measures['f1']:.2f}", text))
    shown = "".join(
        f"<li><span>{name}</span><b>{escape(value)}</b><small>{escape(text)}</small></li>"
        for name, value, text in tiles
    )
    return f'<ul class="tiles">{shown}</ul>' if tiles else ""


def _calibration(summary: Mapping[str, Any]) -> str:
    bins = summary.get("reliability", [])
    if not bins:
        return ""
    rows = [(_percent(b["confidence"]), _percent(b["accuracy"]), f"{b['n_items']:,}") for b in bins]
    text = "Of answers with a probability of 80 %, about 80 % should be right: points near the dashed line."
    table = _table(("probability", "accuracy", "answers"), rows, folded="The same in numbers")
    return _section("Calibration of probabilities", text, f"<figure>{reliability_svg(bins)}</figure>{table}")


def _hedging(hedging: Mapping[str, Any] | None, curve: Sequence[dict[str, float]] | None) -> str:
    if not hedging:
        return ""
    rows = [(_percent(p["requested"]), _percent(p["accuracy"]), _percent(p["gain"])) for p in hedging["points"]]
    text = (
        "An uncertain answer may name a larger group (“a bird”) instead of a class. Further left, answers are less"
        f" specific and right more often. The dashed line is the required accuracy, {_percent(hedging['requested'])}."
    )
    chart = curve_svg(curve, hedging["requested"], hedging["at_requested"], hedging.get("reached")) if curve else ""
    table = _table(("required", "accuracy", "information gain"), rows, folded="The same in numbers")
    return _section("Accuracy and specificity", text, (f"<figure>{chart}</figure>" if chart else "") + table)


def _classes(classes: list[Mapping[str, Any]]) -> str:
    if not classes:
        return ""
    shown, rest = classes[:CLASSES_SHOWN], classes[CLASSES_SHOWN:]
    head = ("class", "items", "recall", "precision")

    def rows(some: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
        return [(escape(str(c["label"])), f"{c['n_items']:,}", _bar(c["recall"]), _bar(c["precision"])) for c in some]

    more = _table(head, rows(rest), folded=f"{len(rest)} more classes", raw=True) if rest else ""
    text = "Those with most mistakes first." if len(classes) > 1 else ""
    return _section("Class by class", text, _table(head, rows(shown), raw=True) + more)


def _confused(pairs: list[Mapping[str, Any]]) -> str:
    if not pairs:
        return ""
    rows = [
        (escape(str(pair["label"])), escape(str(pair["predicted"])), f"{pair['n_items']:,}", _bar(pair["share"]))
        for pair in pairs
    ]
    text = "A class, and the answer given instead."
    return _section("Most confused", text, _table(("label", "predicted", "times", "share"), rows, raw=True))


def _keywords(measures: Mapping[str, Any] | None) -> str:
    if not measures:
        return ""
    rows = [
        ("precision", _percent(measures["precision"]), "of the items given a word have it, in the mean over words"),
        ("recall", _percent(measures["recall"]), "of the items that have a word were given it, in the mean over words"),
        ("F1", f"{measures['f1']:.3f}", "their harmonic mean"),
        ("N+", f"{measures['words_found']:,.0f}", "words were right at least once"),
    ]
    return _section("Keywords", "", _table(("measure", "value", "meaning"), rows))


def _mistakes(mistakes: list[Mapping[str, Any]]) -> str:
    if not mistakes:
        return ""
    text = "The neighbors of these items contradict their labels. Either the answer is wrong, or the label is."
    return _section("Likely mistakes", text, f'<div class="cards">{"".join(map(_card, mistakes))}</div>')


def _card(mistake: Mapping[str, Any]) -> str:
    picture = mistake.get("picture")
    shown = _data_image(picture, f"{mistake['id']}, labeled {mistake['label']}") if picture else ""
    label, suggested = (escape(str(mistake[key])) for key in ("label", "suggested"))
    text = mistake.get("item_text")
    name = escape(str(mistake["id"])) if text is None else _quoted(text)
    sure = escape(_percent(mistake["probability"]))
    # The first line of the evidence is the answer, shown above.
    lines = [escape(line) for line in str(mistake.get("text") or "").splitlines()[1:]]
    neighbors = [
        (_neighbor(n, text), escape(str(n.get("says", n.get("label")))), f"{n['distance']:.3g}")
        for n in list(mistake.get("neighbors") or [])[:NEIGHBORS_SHOWN]
    ]
    below = _text(lines[LINES_SHOWN:]) + _table(("neighbor", "label", "distance"), neighbors, raw=True)
    return (
        f'<article>{shown}<div><h3>{name}</h3><p><span class="was">{label}</span>'
        f' <span aria-label="should perhaps be">→</span> <b>{suggested}</b> {sure}</p>'
        f"{_text(lines[:LINES_SHOWN])}{_folded('Why', below)}</div></article>"
    )


def _neighbor(neighbor: Mapping[str, Any], text: str | None) -> str:
    """A neighbor by its text, with the words it shares marked, or else by its name."""
    its_text = neighbor.get("item_text")
    return escape(str(neighbor.get("id", neighbor.get("row")))) if its_text is None else _quoted(its_text, text or "")


def _quoted(text: str, other: str = "") -> str:
    cut = text if len(text) <= LETTERS_SHOWN else f"{text[:LETTERS_SHOWN].rstrip()}…"
    parts = marked_parts(cut, words_of(other))
    return f"<q>{''.join(f'<b>{escape(part)}</b>' if shared else escape(part) for part, shared in parts)}</q>"


def _text(lines: list[str]) -> str:
    return f'<p class="text">{"<br>".join(lines)}</p>' if lines else ""


# ------------------------------------------------------------------ parts of the page


def _section(title: str, text: str, content: str) -> str:
    sentence = f"<p>{escape(text)}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{sentence}{content}</section>"


def _table(head: Iterable[str], rows: Sequence[tuple[str, ...]], *, folded: str = "", raw: bool = False) -> str:
    """A table; ``folded`` under these words until they are clicked. Cells are escaped unless they are ``raw``."""
    if not rows:
        return ""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell if raw else escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>'
    return _folded(folded, table) if folded else table


def _folded(words: str, content: str) -> str:
    return f"<details><summary>{escape(words)}</summary>{content}</details>" if content else ""


def _bar(share: float | None) -> str:
    if share is None:
        return '<span class="none">—</span>'
    return f'<span class="bar"><i style="width:{100 * share:.0f}%"></i></span>{escape(_percent(share))}'


def _percent(share: float) -> str:
    """A share in percent; rounded to 100 % or 0 % only if exact.

    >>> [_percent(share).replace(NO_BREAK, " ") for share in (0.9472, 0.9996, 1.0, 0.0002)]
    ['94.7 %', '> 99.9 %', '100 %', '< 0.1 %']
    """
    if share in (0.0, 1.0):
        text = f"{100 * share:.0f} %"
    elif not 0.0005 <= share < 0.9995:
        text = "< 0.1 %" if share < 0.5 else "> 99.9 %"
    else:
        text = f"{100 * share:.1f} %"
    return text.replace(" ", NO_BREAK)


def _signed(value: float) -> str:
    return "−∞" if value == float("-inf") else f"{value:.3f}".replace("-", "−")


def _data_image(content: bytes, alternative: str) -> str:
    kind = next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)
    if kind is None:
        raise InputError(f"The picture of {alternative} is not a PNG, JPEG, GIF or WebP file.")
    return f'<img alt="{escape(alternative)}" src="data:{kind};base64,{base64.b64encode(content).decode()}">'
