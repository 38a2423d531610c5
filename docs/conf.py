"""The documentation site: ``make site`` builds it into ``build/site``. What is made for it is in ``site_pages.py``."""

import sys
from pathlib import Path
from typing import Any

import nearsay

sys.path.insert(0, str(Path(__file__).parent))
import site_pages

project = "nearsay"
author = "The nearsay developers"
version = release = nearsay.__version__
copyright = author

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [path.name for path in site_pages.BROUGHT_IN if path.parent == site_pages.DOCS]
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 80

# Markdown as GitHub shows it: headings are link targets, checked.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(site_pages.ROOT / "examples"),
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),
    "write_computation_times": False,
    "show_signature": False,
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "doc_module": ("nearsay",),
    "backreferences_dir": None,
    "reference_url": {},
}

highlight_language = "none"  # a block that names no language is of the shell, not of Python

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "nearsay"
html_static_path = ["_static"]
html_css_files = ["nearsay.css"]
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["generated/llms.txt"]
html_theme_options: dict[str, Any] = {
    "logo": {"text": "nearsay"},
    "show_prev_next": False,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    # Written by hand at each release; read by the page in the reader's browser, not when the site is built.
    "switcher": {"json_url": f"{site_pages.SITE}_static/switcher.json", "version_match": version},
    "check_switcher": False,
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": []}


def setup(app: Any) -> None:
    site_pages.write_pages()  # before Sphinx looks for pages
    app.connect("source-read", _set_right)
    # Before numpydoc, which comes at 500.
    app.connect("autodoc-process-docstring", _read_docstring, priority=400)
    app.connect("autodoc-skip-member", _leave_out)


def _set_right(app: Any, page: str, source: list[str]) -> None:
    """Markdown as the site needs it; the pages themselves are written for GitHub."""
    path = site_pages.DOCS / f"{page}.md"
    if not path.exists():
        return
    if page == "index":
        source[0] = site_pages.front_page(source[0])
    elif not page.startswith("generated/"):
        source[0] = site_pages.relinked(source[0], path, path)
    source[0] = source[0].replace("\n\n```\n", "\n```\n")  # the empty line that ends an example, for doctest


def _read_docstring(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    if site_pages.is_foreign("", of):  # links into scikit-learn's own pages
        lines[:] = [site_pages.without_references(line) for line in lines]
    lines[:] = [
        line if line.startswith((">>>", "...")) else site_pages.with_plain_bars(line)
        for line in site_pages.with_example_heading(lines)
    ]


def _leave_out(app: Any, what: str, name: str, member: Any, leave_out: bool, options: Any) -> bool | None:
    return True if site_pages.is_foreign(name, member) else None
