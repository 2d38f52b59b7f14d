"""Labels of tokens: which agents a label mentions, and when it contradicts its token's sender."""

from collections.abc import Iterator

import apsw
import pytest

from interlock.rooms.identity.fold import TABLES
from interlock.rooms.identity.labels import Known, mentions


@pytest.fixture
def state() -> Iterator[apsw.Connection]:
    """The tables with otto on two surfaces, neo, gpt, neo-gpt, and vera with a display name."""
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
def test_a_label_mentions_a_name_in_any_spelling(label: str) -> None:
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
def test_a_label_without_the_words_of_a_name_does_not_mention_it(label: str, name: str) -> None:
    assert not mentions(label, [name])


def test_a_label_mentions_names_in_other_alphabets() -> None:
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
def test_a_label_that_mentions_its_agent_agrees(
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
    contradiction = Known(state).contradiction(sender, label)
    assert contradiction is not None
    assert contradiction.startswith(
        f"The label {label!r} {says}, but the token belongs to @{sender}."
    )


def test_a_label_with_nested_names_means_the_longer_name(state: apsw.Connection) -> None:
    known = Known(state)
    assert known.the_one_named("Neo GPT, at home") == "neo-gpt"
    assert known.the_one_named("Neo, at home") == "neo"
    assert known.the_one_named("Neo and Otto") is None
    assert known.the_one_named("Neo GPT and Otto") is None
    assert known.the_one_named("Neo GPT and Neo") is None
    assert known.the_one_named("nobody") is None
