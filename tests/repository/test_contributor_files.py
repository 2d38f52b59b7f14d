"""Checks the files that contributors and GitHub read: hooks, workflow, templates and links."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from world.paths import ROOT

GITHUB = ROOT / ".github"
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", ".github/pull_request_template.md"]
FORMS = ["bug_report.yml", "feature_request.yml"]

LINK = re.compile(r"\]\(([^)#\s]+)")
CODE = re.compile(r"`([^`\n]+)`")
# A path of this repository inside inline code, such as `pytest tests/repository/test_layers.py`.
PATH = re.compile(r"(?:^|(?<= ))(?:(?:\.ci|\.github|docs|src|tests)/[\w./-]*|[A-Z]+\.md)(?=$| )")
# NNNN stands for the number of a decision.
PLACEHOLDER = "NNNN"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def urls() -> dict[str, str]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        found: dict[str, str] = tomllib.load(file)["project"]["urls"]
    return found


def commands_of_make_check() -> list[str]:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^check:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    python = re.search(r"^PY := (.+)$", makefile, re.MULTILINE)
    assert recipe is not None
    assert python is not None
    lines = recipe[1].splitlines()
    return [line.strip().lstrip("@-").replace("$(PY)", python[1]) for line in lines]


def commands_of_job(name: str) -> list[str]:
    steps = load(GITHUB / "workflows" / "ci.yml")["jobs"][name]["steps"]
    return [step["run"] for step in steps if "run" in step]


def test_pre_commit_runs_the_same_commands_as_make_check() -> None:
    repositories = load(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = [hook for repository in repositories for hook in repository["hooks"]]
    assert [hook["entry"] for hook in hooks] == commands_of_make_check()


def test_pre_commit_downloads_nothing_and_checks_the_whole_repository() -> None:
    for repository in load(ROOT / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            assert hook["language"] == "system", hook["id"]
            assert hook["pass_filenames"] is False, hook["id"]
            assert hook["always_run"] is True, hook["id"]


def test_workflow_runs_on_pull_requests_and_main_with_read_permission() -> None:
    workflow = load(GITHUB / "workflows" / "ci.yml")
    # YAML 1.1 reads the bare key `on` as true.
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_linux_job_calls_ci_run_and_macos_job_calls_make() -> None:
    assert "bash .ci/run" in commands_of_job("linux")
    on_macos = " ".join(commands_of_job("macos"))
    assert "make check" in on_macos
    assert "make test" in on_macos


def test_workflow_tests_the_oldest_supported_python() -> None:
    matrix = load(GITHUB / "workflows" / "ci.yml")["jobs"]["linux"]["strategy"]["matrix"]
    with open(ROOT / "pyproject.toml", "rb") as file:
        required = tomllib.load(file)["project"]["requires-python"]
    assert f">={matrix['python'][0]}" == required


@pytest.mark.parametrize("existing", [True, False])
def test_ci_run_passes_with_and_without_black_box_cases(existing: bool, tmp_path: Path) -> None:
    clone, programs = tmp_path / "clone", tmp_path / "programs"
    for directory in (clone / ".ci", clone / ".venv" / "bin", programs):
        directory.mkdir(parents=True)
    (clone / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    # Replace every program that the script calls with one that prints its name and arguments.
    for program in (clone / ".ci/programs", clone / ".venv/bin/python", programs / "make"):
        program.write_text('#!/bin/sh\necho "${0##*/} $*"\n')
        program.chmod(0o700)
    if existing:
        cases = tmp_path / "shared" / "cases"
        cases.mkdir(parents=True)
        (cases / "run.py").touch()
        (cases / "mail.json").touch()
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=clone,
        env={"PATH": f"{programs}:/usr/bin:/bin", "CI": "true"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    *before, last = done.stdout.splitlines()
    targets = ("check", "test", "longtest", "enginetest")
    assert before == ["programs ", *(f"make {target}" for target in targets)]
    if existing:
        assert last == "python ../shared/cases/run.py ../shared/cases/mail.json"
    else:
        assert last == "Skipped the black-box cases: ../shared/cases/run.py does not exist."


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_links_to_exists(name: str) -> None:
    page = ROOT / name
    here = f"{urls()['Source']}/blob/main/"
    for target in LINK.findall(page.read_text()):
        if target.startswith(here):
            assert (ROOT / target.removeprefix(here)).exists(), target
        elif not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_a_page_names_in_code_exists(name: str) -> None:
    for code in CODE.findall((ROOT / name).read_text()):
        for path in PATH.findall(code):
            assert PLACEHOLDER in path or (ROOT / path).exists(), path


def test_every_project_url_of_a_file_leads_to_that_file() -> None:
    assert set(urls()) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    for url in urls().values():
        assert url.startswith(urls()["Source"])
        path = re.search(r"/(?:blob|tree)/main/(.+)", url)
        assert path is None or (ROOT / path[1]).exists(), url


def test_security_reports_go_to_the_private_form_of_this_repository() -> None:
    form = f"{urls()['Source']}/security/advisories/new"
    templates = GITHUB / "ISSUE_TEMPLATE"
    assert form in (ROOT / "SECURITY.md").read_text()
    assert form in (templates / "bug_report.yml").read_text()
    assert form in [link["url"] for link in load(templates / "config.yml")["contact_links"]]


@pytest.mark.parametrize("name", FORMS)
def test_issue_form_has_the_members_that_github_requires(name: str) -> None:
    form = load(GITHUB / "ISSUE_TEMPLATE" / name)
    assert form["name"]
    assert form["description"]
    questions = [element for element in form["body"] if element["type"] != "markdown"]
    assert all(question["attributes"]["label"] for question in questions)
    ids = [question["id"] for question in questions]
    assert len(set(ids)) == len(ids)
