"""Wake an agent by a line in a file, for a program that watches the file."""

from interlock.plugins import Adapter, Config, NotWoken, Pointer, Window, hookimpl


class File:
    name = "file"

    def __init__(self, path: str) -> None:
        self._path = path

    def can_wake(self, window: Window) -> bool:
        return True

    def wake(self, window: Window, pointer: Pointer) -> None:
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(f"{window.sender}: {pointer.text}\n")
        except OSError as trouble:
            raise NotWoken(f"Cannot write {self._path}: {trouble.strerror}.") from None


@hookimpl
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    path = config["plugins"].get("file", {}).get("path")
    return [File(path)] if path else []
