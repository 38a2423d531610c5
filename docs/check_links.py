"""Check every link within a built site, anchors too: python docs/check_links.py build/site. Nothing is fetched."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to or loads, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """'page: link' for every link to a file or an anchor that is not there."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]  # templates of the theme
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else set()
            if not target.exists() or (target in pages and parts.fragment and unquote(parts.fragment) not in anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def main() -> None:
    broken = broken_links(Path(sys.argv[1]).resolve())
    print(*broken, sep="\n")
    sys.exit(f"{len(broken)} broken links." if broken else 0)


if __name__ == "__main__":
    main()
