"""The verbs of the workspace itself: how it stands, its settings, its log."""

import os
from collections.abc import Iterable
from typing import TypeAlias

from interlock.client.asking import Asked, Verb
from interlock.contracts import acts, answers

File: TypeAlias = "str | os.PathLike[str]"

A_WEEK_S = 7 * 86_400


class Upkeep:
    """`export`, `backup` and `restore` name files of this machine: not for a server elsewhere."""

    @Verb
    def status(self) -> Asked[answers.Status]:
        """Show how the workspace stands."""
        return Asked(acts.ShowStatus())

    @Verb
    def storage(self) -> Asked[answers.Storage]:
        """Show how long and how large the log is."""
        return Asked(acts.ShowStorage())

    @Verb
    def review(self, *, since_s: int = A_WEEK_S) -> Asked[answers.Review]:
        """Show what needs a person."""
        return Asked(acts.Review(since_s))

    @Verb
    def doctor(self) -> Asked[answers.Examined]:
        """Look for what is wrong, each with what would put it right."""
        return Asked(acts.Examine())

    @Verb
    def settings(self) -> Asked[answers.Settings]:
        """List the workspace's settings."""
        return Asked(acts.ListSettings())

    @Verb
    def change_setting(self, name: str, value: str) -> Asked[answers.SettingChanged]:
        """Change one of the workspace's settings."""
        return Asked(acts.ChangeSetting(name, value))

    @Verb
    def pause(self, reason: str | None = None) -> Asked[answers.Paused]:
        """Stop every write at once, until resume."""
        return Asked(acts.Pause(reason))

    @Verb
    def resume(self) -> Asked[answers.Resumed]:
        """Let writes go on."""
        return Asked(acts.Resume())

    @Verb
    def events(self, after: int = 0, *, limit: int = 100) -> Asked[answers.Events]:
        """List what happened after a position, as far as it concerns you."""
        return Asked(acts.ListEvents(after, limit))

    @Verb
    def log(
        self, after: int = 0, *, limit: int = 50, kind: str | None = None
    ) -> Asked[answers.Log]:
        """Show the facts of the log after a position."""
        return Asked(acts.ShowLog(after, limit, kind))

    @Verb
    def verify(self, checkpoint: str | None = None) -> Asked[answers.Verified | answers.Damaged]:
        """Check the whole log, also against a checkpoint that you kept. Damage is a result."""
        return Asked(acts.VerifyLog(checkpoint))

    @Verb
    def checkpoint(self) -> Asked[answers.Checkpoint]:
        """Sign the log as it stands. Kept elsewhere, it shows any later change to history."""
        return Asked(acts.SignCheckpoint())

    @Verb
    def prove(
        self, seq: int | None = None, *, since: int | None = None
    ) -> Asked[answers.Inclusion | answers.Growth]:
        """Prove that an entry is in the log, or that the log only grew since it had so many."""
        return Asked(acts.Prove(seq, since))

    @Verb
    def prove_many(self, seqs: Iterable[int]) -> Asked[answers.Proofs]:
        """Prove that entries are in the log, against one checkpoint."""
        return Asked(acts.ProveMany(tuple(seqs)))

    @Verb
    def export(self, file: File) -> Asked[answers.Exported]:
        """Write the whole log into a new file."""
        return Asked(acts.ExportLog(_absolute(file)))

    @Verb
    def backup(self, file: File) -> Asked[answers.BackedUp]:
        """Copy the workspace into a new file, while it is in use."""
        return Asked(acts.Backup(_absolute(file)))

    @Verb
    def restore(self, file: File) -> Asked[answers.Restored]:
        """Put a backup in place of the log, as a new epoch. Tokens are suspended by it."""
        return Asked(acts.Restore(_absolute(file)))

    @Verb
    def rebuild(self) -> Asked[answers.Rebuilt]:
        """Fold the whole log into a new state."""
        return Asked(acts.Rebuild())


def _absolute(file: File) -> str:
    return os.path.abspath(os.fspath(file))
