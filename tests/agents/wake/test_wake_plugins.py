"""Installed packages can add adapters, and a broken package does not affect the others.

The tests write packages into a directory on Python's path, in the form in which an installer leaves
them.
"""

import logging
import sys
import tomllib
from pathlib import Path

import pytest

from interlock.agents.wake.configuration import parse
from interlock.agents.wake.plugins import GROUP, adapters
from interlock.plugins import Pointer, Window
from world.paths import ROOT

EXAMPLE = ROOT / "examples" / "wake-file"
WINDOW = Window("otto-cli", "s1", None, None, {})

GOOD = """
from interlock.plugins import hookimpl

class Bell:
    name = {name!r}
    def can_wake(self, window): return True
    def wake(self, window, pointer): pass

@hookimpl
def interlock_wake_adapters(config): return [Bell()]
"""
HOOK = "from interlock.plugins import hookimpl\n@hookimpl\ndef "

BROKEN = {
    "not Python": "this is not Python",
    "raises at import": "raise RuntimeError('no')",
    "raises at the call": f"{HOOK}interlock_wake_adapters(config): raise RuntimeError('no')",
    "misspelt": f"{HOOK}interlock_wake_adapter(config): return []",
    "wrong argument": f"{HOOK}interlock_wake_adapters(settings): return []",
    "no list": f"{HOOK}interlock_wake_adapters(config): return 1",
    "no adapter": f"{HOOK}interlock_wake_adapters(config): return ['bell']",
    "no name": GOOD.format(name=None),
    "taken name": GOOD.format(name="codex"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of installed packages, first on Python's path."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, name: str, module: str, text: str) -> None:
    (site / f"{module}.py").write_text(text)
    info = site / f"{module}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}\n")


@pytest.fixture(autouse=True)
def unload_plugin_modules() -> object:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("plugin_", "wake_file")):
            del sys.modules[name]


def test_interlocks_own_adapters_come_from_a_plugin() -> None:
    config = parse('tmux = true\n[commands]\n"*" = ["tell"]')
    assert [adapter.name for adapter in adapters(config)] == ["tmux", "command", "codex"]


def test_an_installed_plugin_adds_its_adapters(site: Path) -> None:
    install(site, "bell", "plugin_bell", GOOD.format(name="bell"))
    assert [adapter.name for adapter in adapters(parse(""))] == ["codex", "bell"]


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_logged_and_the_others_work(
    site: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "a-broken", "plugin_a", text)
    install(site, "bell", "plugin_bell", GOOD.format(name="bell"))
    with caplog.at_level(logging.ERROR):
        assert [adapter.name for adapter in adapters(parse(""))] == ["codex", "bell"]
    (record,) = caplog.records
    assert vars(record)["plugin"] == "a-broken"
    assert vars(record)["why"]


def test_the_installed_example_plugin_works(site: Path, tmp_path: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ((name, module),) = project["entry-points"][GROUP].items()
    install(site, name, module, (EXAMPLE / f"{module}.py").read_text())
    mail = tmp_path / "mail.txt"
    found = {each.name: each for each in adapters(parse(f'[plugins.file]\npath = "{mail}"'))}
    found["file"].wake(WINDOW, Pointer("Interlock: 1 message is waiting.", 1, ("m1",)))
    assert mail.read_text() == "otto-cli: Interlock: 1 message is waiting.\n"
    assert "file" not in {each.name for each in adapters(parse(""))}
