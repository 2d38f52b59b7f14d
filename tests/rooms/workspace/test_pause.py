"""A pause refuses every verb that writes, and leases still end."""

import pytest

from interlock.errors import Paused
from interlock.node import pipeline
from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim
from interlock.rooms.identity.verbs import KeepSession
from interlock.rooms.mail.verbs import ListInbox, ReadMessage
from interlock.rooms.workspace.verbs import Pause, Resume, Whoami
from world.workspace import OWNER, Workspace, text_to


def test_a_pause_refuses_every_verb_that_writes(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {verb: verb.declared for verb in catalogue.verbs()}
    exempt = [v for v, d in declared.items() if d.read_only or d.when_paused or d.maintenance]
    assert {verb.__name__ for verb, each in declared.items() if each.when_paused} == {
        *("Pause", "Resume", "RevokeToken", "RevokeConnection", "SignOut", "CloseConnection")
    }
    boss = workspace.join("boss", scopes=("admin",))._replace(session="s1")
    workspace.call(boss, AcquireClaim(item="B-1"))
    workspace.ms += 1000
    workspace.call(OWNER, Pause("a leak"))
    before = workspace.head()
    with monkeypatch.context() as patch:
        # The pause precedes the rule, so the values of the fields do not matter.
        patch.setattr(pipeline, "validated", lambda request: request)
        for verb in declared.keys() - exempt:
            with pytest.raises(Paused) as caught:
                workspace.node.call_once(boss, verb(**dict.fromkeys(verb._fields)))
            refusal = caught.value.as_dict()
            assert (refusal["since"], refusal["reason"]) == ("2033-05-18T03:33:21.000Z", "a leak")
    mismatched = boss._replace(claimed="otto")
    workspace.refused("IDENTITY_MISMATCH", mismatched, text_to("@vera"), is_recorded=False)
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    workspace.send(boss, "@vera")


def test_reads_in_a_pause_write_no_receipts_and_leases_still_end(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", ttl_s=60)
    workspace.call(vera._replace(session="s1"), AcquireClaim(item="B-1", ttl_s=60))
    workspace.call(OWNER, Pause())
    before = workspace.head()
    workspace.ms += 50_000
    workspace.call(vera, ListInbox())
    workspace.call(vera, ReadMessage(id))
    workspace.call(vera, KeepSession("s1"))
    workspace.ms += 10_000
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    assert workspace.call(otto, Whoami())["unread"] == 1, "the notice that the message expired"
    assert len(workspace.facts("claim_expired")) == 1
