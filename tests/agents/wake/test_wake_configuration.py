"""`wake.toml` belongs to the owner. An invalid file is refused as a whole, and changes take effect
at once."""

import logging
import os
import re
from pathlib import Path

import pytest

from interlock.agents.wake.command import LIMIT_S
from interlock.agents.wake.configuration import FILE, KEYS, LARGEST, parse, read
from interlock.agents.wake.plugins import Adapters
from interlock.errors import Usage
from world.paths import ROOT

PAGE = ROOT / "docs" / "plugins.md"
WHOLE = """
tmux = true
codex = false

[commands]
"otto-cli" = ["notify-send", "Interlock"]
"*" = ["tell"]

[plugins.file]
path = "mail.txt"
"""


def write(directory: Path, text: str | bytes) -> Path:
    file = directory / FILE
    draft = directory / "draft"
    draft.write_bytes(text if isinstance(text, bytes) else text.encode())
    draft.replace(file)
    return file


def names(adapters: Adapters) -> list[str]:
    return [adapter.name for adapter in adapters.now()]


def test_without_a_file_only_adapters_that_need_no_consent_are_on(tmp_path: Path) -> None:
    assert read(str(tmp_path)) == {"tmux": False, "codex": True, "commands": {}, "plugins": {}}


def test_a_file_with_all_keys_is_parsed(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)
    assert read(str(tmp_path)) == {
        "tmux": True,
        "codex": False,
        "commands": {"otto-cli": ("notify-send", "Interlock"), "*": ("tell",)},
        "plugins": {"file": {"path": "mail.txt"}},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tmux = ", "not valid TOML"),
        ("tmuks = true", "tmuks in wake.toml: Unknown key"),
        ("tmux = 1", "tmux in wake.toml: The value must be true or false"),
        ('codex = "yes"', "codex in wake.toml"),
        ("commands = []", "commands in wake.toml: The value must be a table"),
        (
            '[commands]\notto = "notify-send"',
            "commands.otto in wake.toml: A command must be a list",
        ),
        ("[commands]\notto = []", "commands.otto"),
        ('[commands]\notto = [""]', "commands.otto"),
        ('[commands]\notto = ["a", 1]', "commands.otto"),
        ('[commands]\notto = ["a\\u0000"]', "commands.otto"),
        ("[plugins]\nfile = 1", "plugins.file in wake.toml: The value must be a table"),
        (b"\xff", "not valid UTF-8"),
        ("#" * (LARGEST + 1), "larger than"),
    ],
)
def test_an_invalid_file_is_refused_with_the_cause(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(Usage, match=why):
        read(str(tmp_path))


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_other_users_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    write(tmp_path, WHOLE).chmod(mode)
    with pytest.raises(Usage, match="chmod go-w"):
        read(str(tmp_path))


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(Usage, match="Cannot read wake"):
        read(str(tmp_path))


def test_adapters_follow_the_file(tmp_path: Path) -> None:
    adapters = Adapters(str(tmp_path))
    assert names(adapters) == ["codex"]
    write(tmp_path, WHOLE)
    assert names(adapters) == ["tmux", "command"]
    os.unlink(tmp_path / FILE)
    assert names(adapters) == ["codex"]


def test_adapters_are_loaded_again_only_after_the_file_has_changed(tmp_path: Path) -> None:
    adapters = Adapters(str(tmp_path))
    before = adapters.now()
    assert adapters.now() is before
    write(tmp_path, WHOLE)
    assert adapters.now() is not before


def test_adapters_stay_unchanged_while_the_file_is_invalid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, WHOLE)
    adapters = Adapters(str(tmp_path))
    before = names(adapters)
    write(tmp_path, "tmux = 1")
    with caplog.at_level(logging.ERROR):
        assert names(adapters) == names(adapters) == before
    (record,) = caplog.records
    assert "true or false" in vars(record)["why"]
    write(tmp_path, "codex = false")
    assert names(adapters) == []


def test_a_file_that_is_invalid_from_the_start_turns_no_adapter_on(tmp_path: Path) -> None:
    write(tmp_path, "tmux = 1")
    assert names(Adapters(str(tmp_path))) == []


def test_the_docs_page_shows_a_valid_file() -> None:
    page = PAGE.read_text()
    *_, shown = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    config = parse(shown)
    assert all(f"{key} =" in shown or f"[{key}" in shown for key in KEYS)
    assert {key: config[key] for key in ("tmux", "codex")} == {
        key: parse("")[key] for key in ("tmux", "codex")
    }
    assert f"After {LIMIT_S:g} seconds, the server kills the command" in " ".join(page.split())
