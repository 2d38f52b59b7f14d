"""The blocks of docs/client.md are one program. It must print the output that the page shows."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from world.commandline import Place
from world.fork_server import Servers
from world.paths import ROOT
from world.server import ForkedServer

pytestmark = pytest.mark.every_engine

PAGE = ROOT / "docs" / "client.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:7420"


def test_program_on_the_page_prints_the_shown_output(
    place: Place, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERLOCK_TOKEN", "INTERLOCK_SESSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("INTERLOCK_WORKSPACE", str(place.workspace))
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == PAGE.read_text().count("```python")
    names: dict[str, Any] = {"__name__": "page"}
    with ForkedServer(place, servers) as served:
        for program, shown in blocks:
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(program.replace(ADDRESS, served.url), str(PAGE), "exec"), names)
            assert printed.getvalue() == shown, program
