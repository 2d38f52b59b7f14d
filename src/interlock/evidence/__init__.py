"""Run a command, and describe the run: command, directory, tree, output and exit status. The run
itself uses no workspace; the caller records it as evidence."""

from interlock.evidence.recording import NotStarted, Recorded, record
from interlock.evidence.running import Limits
from interlock.evidence.standing import Standing, artifact, standing

__all__ = ["Limits", "NotStarted", "Recorded", "Standing", "artifact", "record", "standing"]
