"""Runs a command and describes the run: the command, its directory and tree, its output, and how it
ended. Nothing here talks to a workspace; the caller records the run."""

from interlock.evidence.recording import NotStarted, Recorded, record
from interlock.evidence.running import Limits
from interlock.evidence.standing import Standing, artifact, standing

__all__ = ["Limits", "NotStarted", "Recorded", "Standing", "artifact", "record", "standing"]
