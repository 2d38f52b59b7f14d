"""The rules of settings."""

import pytest

from interlock.rooms.workspace.verbs import ChangeSetting
from world.workspace import OWNER, Workspace


@pytest.mark.parametrize("name", ["limits.hops", "limits.message_bytes", "limits.sends_per_minute"])
@pytest.mark.parametrize("value", ["-1", "", "1.5", "1e3", "٣", "0" * 17 + "1" + "9" * 5000])
def test_a_limit_is_a_number_within_bounds(workspace: Workspace, name: str, value: str) -> None:
    otto = workspace.join("otto")
    workspace.refused("USAGE", OWNER, ChangeSetting(name, value))
    workspace.send(otto, "@vera")


def test_the_refusal_of_an_unknown_setting_lists_the_settings(workspace: Workspace) -> None:
    refusal = workspace.refused("USAGE", OWNER, ChangeSetting("recipient", "strict"))
    assert refusal["settings"] == [
        *("recipients", "names.pattern"),
        *("limits.message_bytes", "limits.sends_per_minute", "limits.hops"),
        *("guard", "wake.quiet_s"),
    ]
