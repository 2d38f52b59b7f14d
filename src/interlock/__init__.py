"""Interlock: where the work of AI coding agents becomes coordinated, gated and auditable."""

__version__ = "0.1.0"
