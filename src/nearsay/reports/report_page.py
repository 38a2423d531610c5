"""The report of an evaluation as one HTML file to open, send or print: no script, nothing loaded from elsewhere.

The figures come from a summary (``evaluation_summary``), the pictures from
displays; here they are only put on a page. What the summary does not have is
left out.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from nearsay.data.replacing import as_text, replacing
from nearsay.displays.drawing import FEW_COLORS, INK
from nearsay.errors import InputError

STYLE = Path(__file__).with_name("report.css")
CLASSES_SHOWN = 12
NEIGHBORS_SHOWN = 10
LINES_SHOWN = 2
# The first bytes of the pictures that browsers show.
PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
# Colors of the pictures that have another one in the dark.
COLORS = {
    "#000000": "currentColor",
    INK: "currentColor",
    "#ffffff": "var(--ground)",
    "#e6e6e6": "var(--line)",
    FEW_COLORS[0].lower(): "var(--accent)",
}
CALIBRATED, ALMOST = 0.03, 0.08
NO_BREAK = "\u00a0"


def write_report(
    path: str | os.PathLike[str],
    summary: Mapping[str, Any],
    figures: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write one self-contained HTML file with the figures of an evaluation.

    Parameters
    ----------
    path
        Where to; a file that is there is kept unless ``overwrite``.
    summary : dict
        As ``evaluation_summary`` gives it. A mistake may also have a ``picture``: the bytes of a PNG, JPEG, GIF or WebP
        file.
    figures : {name: matplotlib figure, display, or bytes of a picture}, optional
        ``reliability`` and ``hedging`` have their places; others follow at the end under their names.
    """
    check_free(path, overwrite=overwrite)
    page = report_html(summary, figures or {})
    with replacing(Path(path)) as out, as_text(out) as text:
        text.write(page)


def check_free(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise an error where a file is there already and is to be kept."""
    if Path(path).exists() and not overwrite:
        name = Path(path).name
        raise InputError(f"{name} is there already. Pass overwrite=True to replace it, or name another file.")


def report_html(summary: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    """The page itself."""
    drawn = {name: _picture(name, figure) for name, figure in figures.items()}
    known = ("reliability", "hedging")
    sections = [
        _head(summary),
        _tiles(summary),
        '<div class="pair">',
        _calibration(summary, drawn.get("reliability", "")),
        _hedging(summary.get("hedging"), drawn.get("hedging", "")),
        "</div>",
        '<div class="pair">',
        _classes(summary.get("classes", [])),
        _confused(summary.get("confused", [])),
        "</div>",
        _keywords(summary.get("keywords")),
        _mistakes(summary.get("mistakes", [])),
        *(_section(name, "", picture) for name, picture in drawn.items() if name not in known),
    ]
    title = escape(str(summary.get("title") or "Evaluation"))
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # What a label or an id might smuggle in would not run, nor fetch anything.
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
    told = f'<p class="how">{escape(how)}</p>' if how else ""
    return f'<header><h1>{escape(title)}</h1>{told}<p class="lead">{sentence}</p></header>'


def _tiles(summary: Mapping[str, Any]) -> str:
    tiles = []
    if "accuracy" in summary:
        low, high = summary.get("accuracy_range", (None, None))
        sure = "" if low is None else f"{_percent(low)} to {_percent(high)}, nineteen times in twenty"
        tiles.append(("Accuracy", _percent(summary["accuracy"]), sure))
    if "calibration_error" in summary:
        error = summary["calibration_error"]
        verdict = "well calibrated" if error <= CALIBRATED else "fairly calibrated" if error <= ALMOST else "off"
        told = f"probabilities are {verdict}: off by {_percent(error)} on average"
        tiles.append(("Calibration error", f"{error:.3f}", told))
    if "mean_log_posterior" in summary:
        value = summary["mean_log_posterior"]
        tiles.append(("Log posterior", _signed(value), "mean log of the probability of the truth; 0 is perfect"))
    at_asked = (summary.get("hedging") or {}).get("at_asked")
    if at_asked:
        told = f"of the information of a full answer, while right in {_percent(at_asked['accuracy'])}"
        tiles.append(("Hedged answers say", _percent(at_asked["gain"]), told))
    if summary.get("keywords"):
        measures = summary["keywords"]
        told = f"precision {_percent(measures['precision'])}, recall {_percent(measures['recall'])}"
        tiles.append(("Keywords, F1", f"{measures['f1']:.2f}", told))
    shown = "".join(
        f"<li><span>{name}</span><b>{escape(value)}</b><small>{escape(told)}</small></li>"
        for name, value, told in tiles
    )
    return f'<ul class="tiles">{shown}</ul>' if tiles else ""


def _calibration(summary: Mapping[str, Any], picture: str) -> str:
    bins = summary.get("reliability", [])
    if not bins and not picture:
        return ""
    rows = [(_percent(b["confidence"]), _percent(b["accuracy"]), f"{b['n_items']:,}") for b in bins]
    told = "Where an answer was given 80 %, about 80 % of such answers should be right: points near the dashed line."
    return _section(
        "Can the probabilities be trusted?",
        told,
        picture + _table(("said", "was right", "answers"), rows, folded="The same in numbers"),
    )


def _hedging(hedging: Mapping[str, Any] | None, picture: str) -> str:
    if not hedging:
        return ""
    rows = [(_percent(p["asked"]), _percent(p["accuracy"]), _percent(p["gain"])) for p in hedging["points"]]
    told = (
        "An unsure answer may name a larger group (“a bird”) instead of a class. Further left it says less and is right"
        f" more often. The dashed line is the accuracy asked for, {_percent(hedging['asked'])}."
    )
    head = ("asked for", "was right", "information")
    return _section("How specific, how right?", told, picture + _table(head, rows, folded="The same in numbers"))


def _classes(classes: list[Mapping[str, Any]]) -> str:
    if not classes:
        return ""
    shown, rest = classes[:CLASSES_SHOWN], classes[CLASSES_SHOWN:]
    head = ("class", "items", "found", "right when said")

    def rows(some: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
        return [(escape(str(c["label"])), f"{c['n_items']:,}", _bar(c["recall"]), _bar(c["precision"])) for c in some]

    more = _table(head, rows(rest), folded=f"{len(rest)} more classes", raw=True) if rest else ""
    told = "Those with most mistakes first." if len(classes) > 1 else ""
    return _section("Class by class", told, _table(head, rows(shown), raw=True) + more)


def _confused(pairs: list[Mapping[str, Any]]) -> str:
    if not pairs:
        return ""
    rows = [(escape(str(c["label"])), escape(str(c["said"])), f"{c['n_items']:,}", _bar(c["share"])) for c in pairs]
    told = "A class and what was said instead."
    return _section("Most confused", told, _table(("it is", "it was called", "times", "share"), rows, raw=True))


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
    told = "The neighbors of these items contradict their labels. Either the answer is wrong, or the label is."
    return _section("Likely mistakes", told, f'<div class="cards">{"".join(map(_card, mistakes))}</div>')


def _card(mistake: Mapping[str, Any]) -> str:
    picture = mistake.get("picture")
    shown = _data_image(picture, f"{mistake['id']}, labeled {mistake['label']}") if picture else ""
    name, label, suggested = (escape(str(mistake[key])) for key in ("id", "label", "suggested"))
    sure = escape(_percent(mistake["probability"]))
    # The first line of the evidence is the answer, which stands above it.
    lines = [escape(line) for line in str(mistake.get("text") or "").splitlines()[1:]]
    neighbors = [
        (str(n.get("id", n.get("row"))), str(n.get("says", n.get("label"))), f"{n['distance']:.3g}")
        for n in list(mistake.get("neighbors") or [])[:NEIGHBORS_SHOWN]
    ]
    below = _text(lines[LINES_SHOWN:]) + _table(("neighbor", "says", "distance"), neighbors)
    return (
        f'<article>{shown}<div><h3>{name}</h3><p><span class="was">{label}</span>'
        f' <span aria-label="should perhaps be">→</span> <b>{suggested}</b> {sure}</p>'
        f"{_text(lines[:LINES_SHOWN])}{_folded('Why', below)}</div></article>"
    )


def _text(lines: list[str]) -> str:
    return f'<p class="text">{"<br>".join(lines)}</p>' if lines else ""


# ------------------------------------------------------------------ parts of the page


def _section(title: str, told: str, content: str) -> str:
    sentence = f"<p>{escape(told)}</p>" if told else ""
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
    """A share in percent; only what is all, or nothing, is written so.

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


def _picture(name: str, figure: Any) -> str:
    """An inline SVG, or an image within the page."""
    if isinstance(figure, bytes):
        return f"<figure>{_data_image(figure, name)}</figure>"
    figure = getattr(figure, "figure_", figure)
    if not hasattr(figure, "savefig"):
        raise InputError(
            f"The figure {name!r} must be a matplotlib figure, a display or the bytes of a picture;"
            f" got {type(figure).__name__}."
        )
    return f"<figure>{_svg(name, figure)}</figure>"


def _data_image(content: bytes, alternative: str) -> str:
    kind = next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)
    if kind is None:
        raise InputError(f"The picture of {alternative} is not a PNG, JPEG, GIF or WebP file.")
    return f'<img alt="{escape(alternative)}" src="data:{kind};base64,{base64.b64encode(content).decode()}">'


def _svg(name: str, figure: Any) -> str:
    """The figure as SVG in the colors of the page: ink is the color of text, and white that of the ground."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = out.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    for color, of_the_page in COLORS.items():
        drawing = drawing.replace(f": {color}", f": {of_the_page}")
    drawing = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font: \1 system-ui, sans-serif", drawing)
    # Several drawings on a page must not share the names of their parts.
    prefix = re.sub(r"\W", "-", name)
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", drawing)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)
    whole = "" if size is None else f' style="max-width:{float(size[1]) * 1.5:.0f}px"'
    named = f'<svg role="img" aria-label="{escape(name)}"{whole} '
    return named + re.sub(r'^<svg |\s(?:width|height)="[\d.]+pt"', " ", drawing, count=3).lstrip()
