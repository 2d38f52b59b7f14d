"""All checks over one repository."""

from interlock.errors import Usage
from interlock.scrub.contents import Files, check_contents, check_names
from interlock.scrub.finding import Finding
from interlock.scrub.git import Git
from interlock.scrub.ledger import Ledger
from interlock.scrub.records import check_commits, check_ref_names, check_tags
from interlock.scrub.refs import check_refs, check_roots, fixes_for, sorted_out
from interlock.scrub.rules import Rules
from interlock.scrub.scanner import Scanner
from interlock.scrub.texts import Judge


def findings(repository: str, rules: Rules) -> list[Finding]:
    """Everything that must not become public, in order; the empty list lets it pass.

    Raises Usage where the repository cannot be judged, or the scanner for secrets is missing."""
    judge = Judge(rules, Scanner())
    git = Git(repository)
    commits = git.commits()
    if not commits:
        raise Usage("The repository has no commit yet, so there is nothing to judge.")
    refs = sorted_out(git, git.refs(), rules)
    fixes = fixes_for(git, refs)
    ledger = Ledger(rules, commits)
    check_refs(git, refs, ledger)
    check_roots(git, fixes, ledger)
    files = Files(git, commits, rules)
    check_names(files, judge, rules, fixes, ledger)
    with git.objects() as objects:
        check_contents(files, objects, judge, fixes, ledger)
        check_commits(commits, objects, judge, fixes, ledger)
        check_tags(refs, objects, judge, ledger)
    check_ref_names(refs, judge, ledger)
    return ledger.findings()
