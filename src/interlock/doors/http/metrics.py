"""Counters and gauges of the server, in the text format of Prometheus."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

_STARTED = time.monotonic()


class Metrics:
    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.refusals: Counter[str] = Counter()
        self.streams = 0

    def text(
        self, entries: int, standing: dict[str, Any], intrusions: Counter[str] | None = None
    ) -> str:
        """Return all metrics. `standing` describes the nodes of a shared engine. It is empty for an
        embedded log."""
        lines: list[str] = []

        def add(name: str, kind: str, help: str, values: object, label: str = "") -> None:
            lines.extend((f"# HELP {name} {help}.", f"# TYPE {name} {kind}"))
            if isinstance(values, Mapping):
                lines.extend(f'{name}{{{label}="{key}"}} {value}' for key, value in values.items())
            else:
                lines.append(f"{name} {values}")

        answers = dict(sorted(self.answers.items()))
        refusals = dict(sorted((self.refusals + (intrusions or Counter())).items()))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = memory if sys.platform == "darwin" else memory * 1024
        uptime_s = f"{time.monotonic() - _STARTED:.0f}"
        add("interlock_http_responses_total", "counter", "Responses by status", answers, "status")
        add("interlock_refusals_total", "counter", "Refusals by code", refusals, "code")
        add("interlock_event_streams", "gauge", "Open event streams", self.streams)
        add("interlock_log_entries", "gauge", "Entries of the log", entries)
        add("interlock_uptime_seconds", "gauge", "Time since the server started", uptime_s)
        add("process_max_resident_memory_bytes", "gauge", "Peak memory", memory)
        if standing:
            is_up, age_s = int("trouble" not in standing), standing.get("confirmed_s_ago", "NaN")
            aside, nodes = standing["set_aside"], standing["nodes"]
            add("interlock_engine_up", "gauge", "1 if this node can follow the engine", is_up)
            add("interlock_engine_confirmed_seconds", "gauge", "Age of the confirmed head", age_s)
            add("interlock_entries_set_aside", "gauge", "Entries without a valid seal", aside)
            for name, help, member in (
                ("position", "Log position of each node", "seq"),
                ("heard_seconds", "Time since the last report of each node", "seen_s_ago"),
                ("lag_entries", "Entries that each node is behind", "lag"),
            ):
                values = {node["node"]: node[member] for node in nodes}
                add(f"interlock_node_{name}", "gauge", help, values, "node")
        return "\n".join(lines) + "\n"
