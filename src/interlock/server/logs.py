"""Structured logs: one JSON object a line, without tokens and without what anybody wrote."""

import json
import logging
import time
from logging.handlers import RotatingFileHandler
from typing import Any

LARGEST = 10 << 20

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "log": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(path: str, level: str = "INFO") -> None:
    """Everything that is logged goes into the file; it is begun anew when it has grown large."""
    handler = RotatingFileHandler(path, maxBytes=LARGEST, backupCount=1, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("uvicorn.error", "mcp", "asyncio"):
        logging.getLogger(noisy).setLevel("WARNING")
