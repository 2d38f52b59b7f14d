"""Interlock: where the work of AI coding agents becomes coordinated, gated and auditable.

`interlock.connect` is the Python client. It is loaded when it is first used: every command imports
this package before anything else.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's own takes longer to import than all this
if TYPE_CHECKING:
    from interlock.client import connect as connect
else:

    def __getattr__(name: str) -> object:
        if name != "connect":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from interlock.client import connect

        return connect
