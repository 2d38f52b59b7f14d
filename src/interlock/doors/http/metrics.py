"""What the server counts, in the text form that Prometheus reads."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

_STARTED = time.monotonic()


class Metrics:
    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self.refusals: Counter[str] = Counter()
        self.streams = 0

    def answered(self, status: int) -> None:
        self._answers[status] += 1

    def text(
        self, entries: int, standing: dict[str, Any], intrusions: Counter[str] | None = None
    ) -> str:
        """`standing` is how the nodes of a shared log stand; empty where one file is the log."""
        refusals = self.refusals + (intrusions or Counter())
        lines = [
            *_head("interlock_http_responses_total", "counter", "Responses by status"),
            *(
                f'interlock_http_responses_total{{status="{status}"}} {count}'
                for status, count in sorted(self._answers.items())
            ),
            *_head("interlock_refusals_total", "counter", "Refusals by code"),
            *(
                f'interlock_refusals_total{{code="{code}"}} {count}'
                for code, count in sorted(refusals.items())
            ),
            *_head("interlock_event_streams", "gauge", "Event streams that are open"),
            f"interlock_event_streams {self.streams}",
            *_head("interlock_log_entries", "gauge", "Length of the log"),
            f"interlock_log_entries {entries}",
            *_head("interlock_uptime_seconds", "gauge", "Time since the start"),
            f"interlock_uptime_seconds {time.monotonic() - _STARTED:.0f}",
            *_head("process_max_resident_memory_bytes", "gauge", "Most memory ever used"),
            f"process_max_resident_memory_bytes {_most_memory()}",
            *(_engine(standing) if standing else ()),
        ]
        return "\n".join(lines) + "\n"


def _engine(standing: dict[str, Any]) -> Iterator[str]:
    """The engine, and every node on it."""
    yield from _head("interlock_engine_up", "gauge", "Whether the engine can be followed")
    yield f"interlock_engine_up {int('trouble' not in standing)}"
    yield from _head("interlock_engine_confirmed_seconds", "gauge", "Age of what is read here")
    yield f"interlock_engine_confirmed_seconds {standing.get('confirmed_s_ago', 'NaN')}"
    yield from _head("interlock_entries_set_aside", "gauge", "Entries without a good seal")
    yield f"interlock_entries_set_aside {standing['set_aside']}"
    yield from _head("interlock_node_position", "gauge", "How far each node has folded the log")
    for node in standing["nodes"]:
        yield f'interlock_node_position{{node="{node["node"]}"}} {node["seq"]}'
    yield from _head("interlock_node_heard_seconds", "gauge", "When each node was last heard of")
    for node in standing["nodes"]:
        yield f'interlock_node_heard_seconds{{node="{node["node"]}"}} {node["seen_s_ago"]}'
    yield from _head("interlock_node_lag_entries", "gauge", "How far each node is behind")
    for node in standing["nodes"]:
        yield f'interlock_node_lag_entries{{node="{node["node"]}"}} {node["lag"]}'


def _head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP {name} {help}.", f"# TYPE {name} {kind}"


def _most_memory() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
