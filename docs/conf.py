"""Configures Sphinx for the documentation site. docs/build.py builds it.

The pages are plain Markdown that GitHub shows too. So this file, and not the pages, does what only
a site needs:

- The lists of links in index.md are its navigation, one group for each heading.
- A link to a file outside docs/ leads to the page that shows the file, or to GitHub.
- No page has an inline script or style, because the server forbids them.
"""

import os
import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
with open(ROOT / "pyproject.toml", "rb") as file:
    REPOSITORY = tomllib.load(file)["project"]["urls"]["Source"]
VERSION = re.findall('__version__ = "(.+)"', (ROOT / "src/interlock/__init__.py").read_text())[0]
# The pages that show a file from outside docs/. On GitHub, each of them links to its file.
SHOWN = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
# The pages that stand for a file or folder that is not a page.
PAGES = {ROOT / file: f"{page}.md" for page, file in SHOWN.items()}
PAGES |= {ROOT / "README.md": "index.md", DOCS / "decisions": "decisions/README.md"}

CODE_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
GROUP = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.MULTILINE)
LISTED = re.compile(r"^- \[([^]]+)\]\(([^)]+)\.md\)", re.MULTILINE)

project = "Interlock"
html_title = f"Interlock {VERSION}"
extensions = ["myst_parser"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]

# The anchors of headings, as GitHub makes them.
myst_heading_anchors = 4
highlight_language = "text"
# Code and flags are often outside of code spans, as in a table of flags.
smartquotes = False
# Pygments does not understand every console session; the tests run them all.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = html_logo = "../src/interlock/doors/web/static/icon.svg"
html_search_scorer = str(DOCS / "_templates" / "search_scores.js")
html_show_copyright = False
html_copy_source = False
html_use_index = False


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the text of a page by the text for the site."""
    text, folder = source[0], (DOCS / page).parent
    if page in SHOWN:
        text, folder = (ROOT / SHOWN[page]).read_text(), ROOT
        app.env.note_dependency(ROOT / SHOWN[page])
    parts = CODE_BLOCK.split(text)
    parts[::2] = [LINK.sub(lambda found: _target(page, folder / found[1]), p) for p in parts[::2]]
    text = "".join(parts)
    if page == "index":
        for title, links in GROUP.findall(text):
            pages = [f"{name} <{listed}>" for name, listed in LISTED.findall(links)]
            if pages:
                text += _navigation(f":caption: {title}", ":hidden:", ":titlesonly:", "", *pages)
    elif page == "decisions/README":
        text += _navigation(":glob:", ":hidden:", ":titlesonly:", "", "[0-9]*")
    source[0] = text


def _target(page: str, path: Path) -> str:
    """Return the target of a link to a file or folder of the repository."""
    path = Path(os.path.normpath(path))
    path = DOCS / PAGES[path] if path in PAGES else path
    if path.is_relative_to(DOCS):
        return os.path.relpath(path, (DOCS / page).parent)
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path.relative_to(ROOT)}"


def _navigation(*lines: str) -> str:
    return "\n".join(["", "```{toctree}", *lines, "```", ""])
