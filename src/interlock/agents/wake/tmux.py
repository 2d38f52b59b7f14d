"""tmux, the last resort: the pointer is pasted at an idle client's prompt, and Enter is pressed.

Off unless the owner switches it on. Only a client that is recognised, in its own pane, at an empty
prompt, is woken so, and every step is looked at before the next: what was pasted must be all that
stands in the prompt before Enter is pressed, once. Nothing else is ever typed.
"""

import time
from collections.abc import Callable

from interlock.agents.wake.looks import LOOKS, prompt, squeezed, why_not
from interlock.agents.wake.panes import Pane
from interlock.agents.wake.text import typed
from interlock.plugins import InDoubt, NotWoken, Pointer, Window

# A client at rest draws nothing; one that is at work does, whatever else it shows.
QUIET_S = 0.5
SEEN_WITHIN_S = 5.0
POLL_INTERVAL_S = 0.1


class Tmux:
    """Wakes a window whose ways name its pane: `{"tmux": {"socket": PATH, "pane": "%3"}}`."""

    name = "tmux"
    # A person may be typing there, or a dialog wait: whether it can be woken shows when it is.
    is_sure = False

    def can_wake(self, window: Window) -> bool:
        way = window.ways.get(self.name, {})
        return window.client in LOOKS and window.pid is not None and {"socket", "pane"} <= set(way)

    def wake(self, window: Window, pointer: Pointer) -> None:
        if not self.can_wake(window):
            raise NotWoken("It is not known which client runs in which pane.")
        way = window.ways[self.name]
        _Wake(window, Pane(way["socket"], way["pane"])).tell(typed(pointer.text))


class _Wake:
    """One wake, step by step."""

    def __init__(self, window: Window, pane: Pane) -> None:
        assert window.client is not None
        assert window.pid is not None
        self._look = LOOKS[window.client]
        self._pid = window.pid
        self._pane = pane

    def tell(self, line: str) -> None:
        if reason := self._busy():
            raise NotWoken(f"Pane {self._pane.id} is left alone: {reason}.")
        self._pane.paste(line)
        try:
            self._submit(line)
        except NotWoken as trouble:
            raise InDoubt(f"The line was pasted into pane {self._pane.id}. {trouble}") from None

    def _submit(self, line: str) -> None:
        pane = self._pane.id
        if not self._until(lambda: self._stands(line)):
            raise InDoubt(f"The line was pasted into pane {pane}, and is not to be seen there.")
        if not self._stays(line):
            raise InDoubt(f"Pane {pane} changed after the line was pasted. Enter was not pressed.")
        self._pane.enter()
        if not self._until(lambda: not self._stands(line)):
            raise InDoubt(f"Enter was pressed in pane {pane}, and the line still stands there.")

    def _busy(self) -> str | None:
        """Why it is not to be woken. Looked at twice, with a quiet time between."""
        if reason := self._pane.why_not(self._pid, self._look):
            return reason
        before = self._pane.screen()
        if reason := why_not(before, self._look):
            return reason
        time.sleep(QUIET_S)
        if self._pane.screen() != before:
            return "its screen is changing"
        return self._pane.why_not(self._pid, self._look)

    def _stays(self, line: str) -> bool:
        """A client takes an Enter that follows too closely for a part of the paste."""
        time.sleep(QUIET_S)
        return self._pane.why_not(self._pid, self._look) is None and self._stands(line)

    def _stands(self, line: str) -> bool:
        """Whether the line, and nothing else, stands in the prompt."""
        return prompt(self._pane.screen(), self._look) == squeezed(line)

    def _until(self, holds: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + SEEN_WITHIN_S
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL_S)
        return True
