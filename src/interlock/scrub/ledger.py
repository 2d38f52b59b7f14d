"""Gathers what is found: each thing once, under the oldest commit that has it, and nothing that a
person has looked at."""

from collections.abc import Sequence

from interlock.scrub.finding import CHECKS, Finding, fingerprint, shown
from interlock.scrub.rules import Rules


class Ledger:
    """To be filled with the oldest commits first."""

    def __init__(self, rules: Rules, commits: Sequence[str]) -> None:
        self._rules = rules
        self._order = {commit: number for number, commit in enumerate(commits)}
        self._found: dict[str, Finding] = {}

    def add(
        self,
        check: str,
        what: str,
        fix: str,
        *,
        mark: str = "",
        commit: str | None = None,
        path: bytes | None = None,
        line: int | None = None,
        present: bool = False,
    ) -> None:
        """Notes a finding. Several versions of a file may have the same one: it keeps the oldest
        commit, and the fix for the version that is `present` in HEAD, if any is."""
        place = shown(path) if path is not None else None
        name = fingerprint(check, what, mark, place or "")
        if name in self._rules.ignored_findings:
            return
        if name not in self._found:
            self._found[name] = Finding(check, what, fix, name, commit, place, line)
        elif present:
            self._found[name] = self._found[name]._replace(fix=fix)

    def findings(self) -> list[Finding]:
        return sorted(self._found.values(), key=self._position)

    def _position(self, finding: Finding) -> tuple[int, int, str, int, str]:
        return (
            CHECKS.index(finding.check),
            self._order.get(finding.commit or "", -1),
            finding.path or "",
            finding.line or 0,
            finding.what,
        )
