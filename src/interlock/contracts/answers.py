"""What each act is answered with."""

from typing import Any

from interlock.contracts.routes import ROUTES

ANSWERS: dict[type, Any] = {route.act: dict[str, Any] for route in ROUTES}
