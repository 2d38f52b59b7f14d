"""Interlock: where the work of AI coding agents becomes coordinated, gated and auditable.

`interlock.connect` is the Python client. It is loaded on first use, because every command imports
this package, and few need the client.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing `typing` takes longer than the rest of this module
if TYPE_CHECKING:
    from interlock.client import connect as connect
else:

    def __getattr__(name: str) -> object:
        if name != "connect":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from interlock.client import connect

        return connect
