"""The types of the answers that the client returns."""

from interlock.rooms.answers import *
