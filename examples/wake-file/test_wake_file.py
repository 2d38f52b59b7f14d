"""The example keeps what docs/plugins.md asks of a plugin."""

from pathlib import Path

import pytest
from wake_file import interlock_wake_adapters

from interlock.plugins import NotWoken, Pointer, Window

WINDOW = Window("otto-cli", None, None, None, {})
POINTER = Pointer("Interlock: 1 message is waiting.", 1, ("m1",))


def test_it_appends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mail.txt"
    path.write_text("before\n")
    (adapter,) = interlock_wake_adapters({"plugins": {"file": {"path": str(path)}}})
    assert adapter.can_wake(WINDOW)
    adapter.wake(WINDOW, POINTER)
    assert path.read_text() == "before\notto-cli: Interlock: 1 message is waiting.\n"


def test_it_says_so_when_nobody_was_told(tmp_path: Path) -> None:
    (adapter,) = interlock_wake_adapters({"plugins": {"file": {"path": str(tmp_path)}}})
    with pytest.raises(NotWoken, match="cannot be written"):
        adapter.wake(WINDOW, POINTER)


def test_it_stays_out_of_the_way_until_it_is_configured() -> None:
    assert interlock_wake_adapters({"plugins": {}}) == []
