"""When a label mentions an agent, whom it names, and what is said where it contradicts."""

from collections.abc import Iterator

import apsw
import pytest

from interlock.rooms.identity.fold import TABLES
from interlock.rooms.identity.labels import Known, mentions


@pytest.fixture
def state() -> Iterator[apsw.Connection]:
    """Otto on two surfaces, neo, gpt and neo-gpt, and vera, who is shown as Veronica Sharp."""
    db = apsw.Connection(":memory:")
    db.execute(TABLES)
    for sender, agent in (
        *(("otto-cli", "otto"), ("otto-desktop", "otto"), ("neo", "neo")),
        *(("neo-gpt", "neo-gpt"), ("gpt", "gpt"), ("vera", "vera")),
    ):
        db.execute("INSERT INTO identity_senders VALUES (?, ?, NULL, 0, 0)", (sender, agent))
    db.execute("INSERT INTO identity_displays VALUES ('vera', 'Veronica Sharp')")
    yield db
    db.close()


@pytest.mark.parametrize(
    "label",
    [
        *(
            "neo-gpt",
            "Neo GPT",
            "neo_gpt",
            "NeoGPT",
            "NEO.GPT",
            "the neo gpt, at home",
            "x:neo-gpt",
        ),
        *("\uff4e\uff45\uff4f gpt", "neo\u2014gpt", "[neo][gpt]", "neo  gpt 2"),
    ],
)
def test_a_name_is_mentioned_however_its_words_are_joined(label: str) -> None:
    assert mentions(label, ["neo-gpt"])


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Ottoman", "otto"),
        ("lotto", "otto"),
        ("otto2", "otto"),
        ("gpt neo", "neo-gpt"),
        ("neo and gpt", "neo-gpt"),
        ("neo", "neo-gpt"),
        ("", "otto"),
        ("--", "otto"),
        ("o", "otto"),
    ],
)
def test_a_name_that_does_not_stand_there_as_words_is_not_mentioned(label: str, name: str) -> None:
    assert not mentions(label, [name])


def test_names_of_other_alphabets_are_mentioned_too() -> None:
    assert mentions("STRASSE am Markt", ["straße"])
    assert mentions("Ото, дома", ["ото"])
    assert mentions("Jose\u0301, laptop", ["josé"])


@pytest.mark.parametrize(
    ("sender", "label"),
    [
        ("otto-cli", "Otto"),
        ("otto-cli", "otto-cli, laptop"),
        ("otto-cli", "OttoDesktop"),
        ("otto-cli", "Otto, lent to Vera"),
        ("vera", "Veronica Sharp, at home"),
        ("vera", None),
        ("late", "Late, at night"),
        ("neo", "neo-gpt and Neo"),
        ("neo", "Neo, once neo-gpt"),
        ("gpt", "gpt, neo-gpt"),
        ("neo-gpt", "Neo GPT"),
    ],
)
def test_a_label_agrees_that_mentions_its_agent(
    state: apsw.Connection, sender: str, label: str | None
) -> None:
    assert Known(state).contradiction(sender, label) is None


@pytest.mark.parametrize(
    ("sender", "label", "says"),
    [
        ("otto-cli", "laptop", "does not mention @otto"),
        ("otto-cli", "Veronica Sharp", "names @vera and not @otto"),
        ("otto-cli", "Neo GPT", "names @neo-gpt and not @otto"),
        ("otto-cli", "Neo GPT for Vera", "does not mention @otto"),
        ("vera", "Sharp", "does not mention @vera"),
        ("vera", "ottocli", "names @otto and not @vera"),
        ("neo-gpt", "Neo", "names @neo and not @neo-gpt"),
        ("neo", "neo-gpt", "names @neo-gpt and not @neo"),
        ("gpt", "The Neo GPT", "names @neo-gpt and not @gpt"),
        ("late", "Vera", "names @vera and not @late"),
    ],
)
def test_a_label_that_does_not_mention_its_agent_contradicts(
    state: apsw.Connection, sender: str, label: str, says: str
) -> None:
    said = Known(state).contradiction(sender, label)
    assert said is not None
    assert said.startswith(f"The label {label!r} {says}, but the token is @{sender}'s: ")


def test_of_two_names_the_longer_is_meant(state: apsw.Connection) -> None:
    known = Known(state)
    assert known.the_one_named("Neo GPT, at home") == "neo-gpt"
    assert known.the_one_named("Neo, at home") == "neo"
    assert known.the_one_named("Neo and Otto") is None
    assert known.the_one_named("Neo GPT and Otto") is None
    assert known.the_one_named("Neo GPT and Neo") is None
    assert known.the_one_named("nobody") is None
