"""The example plugin fulfils the contract in docs/plugins.md."""

from pathlib import Path

import pytest
from wake_file import interlock_wake_adapters

from interlock.plugins import NotWoken, Pointer, Window

WINDOW = Window("otto-cli", None, None, None, {})
POINTER = Pointer("Interlock: 1 message is waiting.", 1, ("m1",))


def test_wake_appends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mail.txt"
    path.write_text("before\n")
    (adapter,) = interlock_wake_adapters({"plugins": {"file": {"path": str(path)}}})
    assert adapter.can_wake(WINDOW)
    adapter.wake(WINDOW, POINTER)
    assert path.read_text() == "before\notto-cli: Interlock: 1 message is waiting.\n"


def test_wake_raises_not_woken_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    (adapter,) = interlock_wake_adapters({"plugins": {"file": {"path": str(tmp_path)}}})
    with pytest.raises(NotWoken, match="Cannot write"):
        adapter.wake(WINDOW, POINTER)


def test_the_plugin_has_no_adapter_without_a_path() -> None:
    assert interlock_wake_adapters({"plugins": {}}) == []
