"""The documentation site, built from the pages as they are."""

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from world.paths import ROOT

DOCS = ROOT / "docs"
BUILD = DOCS / "build.py"
SITE = ROOT / "src" / "interlock" / "doors" / "web" / "site"


def build(program: Path = BUILD) -> subprocess.CompletedProcess[str]:
    """Build the site where its sources have changed; other processes wait for this one."""
    return subprocess.run(
        [sys.executable, program, "--if-changed"], capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site."""
    done = build()
    assert done.returncode == 0, done.stderr
    return SITE


class HtmlPage(HTMLParser):
    """A page of the site: its elements, as (tag, attributes), and its ids."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text())
        self.ids = {attributes["id"] for _, attributes in self.elements if "id" in attributes}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def values(self, *names: str) -> Iterator[tuple[str, str]]:
        """The values of attributes, each with its tag."""
        for tag, attributes in self.elements:
            yield from ((tag, value) for name in names if (value := attributes.get(name)))
