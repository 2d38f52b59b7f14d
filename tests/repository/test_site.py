"""The documentation site: it is complete, its links lead somewhere, and it needs no other host."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from interlock import errors
from world.paths import ROOT
from world.site import BUILD, DOCS, SITE, HtmlPage, build

with open(ROOT / "pyproject.toml", "rb") as file:
    SOURCE = tomllib.load(file)["project"]["urls"]["Source"]
# Headings of the generated pages; a link leads to one of them by its name.
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def parsed(path: Path) -> HtmlPage:
    return HtmlPage(path)


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    broken = []
    for page in pages(site):
        for _, value in parsed(page).values("href", "src"):
            link = urlsplit(value)
            if link.scheme or link.netloc:
                continue
            target = page.parent / unquote(link.path) if link.path else page
            is_there = target.resolve().is_relative_to(site) and target.is_file()
            # `#` alone is the top of the page.
            anchor = unquote(link.fragment)
            if is_there and anchor and target.suffix == ".html":
                is_there = anchor in parsed(target.resolve()).ids
            if not is_there:
                broken.append(f"{page.relative_to(site)}: {value}")
    assert broken == []


def test_links_into_the_repository_lead_to_files_of_it(site: Path) -> None:
    found = {
        link
        for page in pages(site)
        for _, link in parsed(page).values("href")
        if link.startswith((f"{SOURCE}/blob/main/", f"{SOURCE}/tree/main/"))
    }
    assert f"{SOURCE}/blob/main/examples/wake-file/README.md" in found
    for link in found:
        assert (ROOT / urlsplit(link).path.split("/main/")[1]).exists(), link


def test_every_page_of_docs_is_in_the_navigation(site: Path) -> None:
    sources = {str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md")}
    built = {str(page.relative_to(site)) for page in pages(site)}
    assert built == sources | {"search.html"}
    entries = [
        attributes["href"]
        for tag, attributes in parsed(site / "mail.html").elements
        if tag == "a" and "reference internal" in (attributes.get("class") or "")
    ]
    # On its own page, the entry of a page is `#`.
    assert {entry for entry in entries if entry} >= sources - {"index.html", "mail.html"}


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in pages(site):
        for tag, value in parsed(page).values("href", "src", "action", "srcset"):
            is_loaded = tag not in ("a", "use")
            assert not (is_loaded and re.match("(?:[a-z]+:)?//", value)), (page, value)
    for style in site.rglob("*.css"):
        addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)", style.read_text())
        assert [each for each in addresses if not each.startswith("data:")] == [], style


def test_no_page_has_an_inline_script_or_style(site: Path) -> None:
    for page in pages(site):
        for tag, attributes in parsed(page).elements:
            inline = {name for name in attributes if name == "style" or name.startswith("on")}
            is_inline = tag == "style" or (tag == "script" and "src" not in attributes)
            assert not inline, (page, inline)
            assert not is_inline, (page, tag)


def test_files_outside_docs_are_pages_of_the_site(site: Path) -> None:
    for page, file in (
        ("changelog", "CHANGELOG.md"),
        ("contributing", "CONTRIBUTING.md"),
        ("security", "SECURITY.md"),
    ):
        heading = HEADING.findall((ROOT / file).read_text())[1]
        assert f">{heading}<" in (site / f"{page}.html").read_text()
        assert f"({page}.md)" not in (DOCS / "index.md").read_text()


def test_the_licenses_of_its_scripts_and_styles_are_in_the_site(site: Path) -> None:
    texts = [path.read_text() for path in (site / "licenses").iterdir()]
    assert len(texts) == 3
    assert all("copyright" in text.lower() for text in texts)


@pytest.mark.parametrize("page", sorted((DOCS / "reference").glob("*.md")), ids=lambda p: p.name)
def test_the_headings_of_a_reference_page_have_different_anchors(page: Path) -> None:
    titles = [re.sub(r"[^\w -]", "", title.lower()) for title in HEADING.findall(page.read_text())]
    assert len(set(titles)) == len(titles)


def test_an_exception_has_the_name_of_its_code() -> None:
    for code in errors.codes():
        assert errors.by_code(code).__name__.lower() == code.replace("_", "").lower()


def test_a_wheel_contains_the_site(site: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    folder = SITE.relative_to(ROOT / "src")
    assert {f"{folder}/{page.relative_to(site)}" for page in pages(site)} <= names


@pytest.mark.long
def test_a_broken_link_fails_the_build_and_leaves_the_old_site(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    for file in (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "pyproject.toml",
        "examples/wake-file/README.md",
        "src/interlock/__init__.py",
        "src/interlock/doors/web/static/icon.svg",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    program = tmp_path / BUILD.relative_to(ROOT)
    copied = tmp_path / SITE.relative_to(ROOT)
    done = build(program)
    assert done.returncode == 0, done.stderr
    assert "index.html" in done.stdout
    before = os.stat(copied)
    with open(tmp_path / "docs" / "mail.md", "a") as page:
        page.write("\n[Nothing](claims.md#no-such-heading)\n")
    done = build(program)
    assert done.returncode != 0
    assert "mail.md" in done.stderr
    assert "no-such-heading" in done.stderr
    assert os.stat(copied).st_ino == before.st_ino
