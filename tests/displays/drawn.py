"""Displays that are drawn for real: some mistakes show only then."""

from __future__ import annotations

from typing import Any


def drawn(display: Any) -> Any:
    """The display itself, when its figure is drawn."""
    display.figure_.canvas.draw()
    return display


def texts(display: Any) -> dict[str, Any]:
    """All that is written on its axes, by what it says."""
    return {text.get_text(): text for text in drawn(display).ax_.texts}
