"""Builds the documentation site into the package, where `interlock up` serves it at /docs.

    .venv/bin/python docs/build.py [--if-changed]

`make docs`, the tests and the build of a wheel (hatch_build.py) run it. It needs the packages of
the extra `docs`, and no network. A warning of Sphinx is an error. Processes that run it
concurrently wait for each other.
"""

import argparse
import fcntl
import hashlib
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SITE = ROOT / "src" / "interlock" / "doors" / "web" / "site"
TEMPORARY = ROOT / "build"
# A file of the site with the digest of its sources.
STAMP = ".digest"
OTHER_SOURCES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "src/interlock/__init__.py")
# The site contains scripts and styles of these packages.
LICENSED = ("Sphinx", "furo", "sphinx-basic-ng")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--if-changed", action="store_true", help="build only a site that is stale")
    arguments = parser.parse_args()
    TEMPORARY.mkdir(exist_ok=True)
    with open(TEMPORARY / "docs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if arguments.if_changed and is_current():
            return 0
        status = build()
    if status == 0:
        sys.stdout.write(
            f"Built the documentation. Open {(SITE / 'index.html').as_uri()},\n"
            "or /docs on a running server.\n"
        )
    return status


def is_current() -> bool:
    """Say whether there is a site that was built from the sources as they are now."""
    stamp = SITE / STAMP
    return stamp.is_file() and stamp.read_text() == digest()


def digest() -> str:
    """Return a digest of the names and the contents of the sources."""
    sources = [path for path in DOCS.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    found = hashlib.sha256()
    for path in sorted([*sources, *map(ROOT.joinpath, OTHER_SOURCES)]):
        content = path.read_bytes()
        found.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def build() -> int:
    """Build the site, and replace the old one. Return the exit status of Sphinx."""
    from sphinx.cmd.build import build_main

    sources = digest()
    with tempfile.TemporaryDirectory(prefix="docs-", dir=TEMPORARY) as directory:
        site = Path(directory, "site")
        places = ["-d", f"{directory}/doctrees", str(DOCS), str(site)]
        if status := build_main(["-q", "-W", "--keep-going", "-n", "-b", "html", *places]):
            return status
        # It has a hash of the configuration, with paths of this machine.
        (site / ".buildinfo").unlink()
        for package in LICENSED:
            copy_license(package, site / "licenses")
        (site / STAMP).write_text(sources)
        shutil.rmtree(SITE, ignore_errors=True)
        site.rename(SITE)
    return 0


def copy_license(package: str, folder: Path) -> None:
    """Copy the license of a package, which its scripts and styles require."""
    folder.mkdir(exist_ok=True)
    (license,) = (
        file
        for file in metadata.files(package) or ()
        if file.parts[0].endswith(".dist-info") and file.name.startswith("LICENSE")
    )
    (folder / f"{package}.txt").write_text(license.read_text())


if __name__ == "__main__":
    sys.exit(main())
