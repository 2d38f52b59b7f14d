"""Running a command so that what came of it can be shown: what ran, where, on which tree, what it
wrote and how it ended. Nothing here talks to a workspace; whoever records the run does that."""

from interlock.evidence.recording import NotStarted, Recorded, record
from interlock.evidence.running import Limits
from interlock.evidence.standing import Standing, artifact, standing

__all__ = [
    "Limits",
    "NotStarted",
    "Recorded",
    "Standing",
    "artifact",
    "record",
    "standing",
]
