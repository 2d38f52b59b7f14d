"""Log time never goes back, even if the machine's clock does."""

from datetime import UTC, datetime, timedelta

from interlock import errors
from interlock.node import audit
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.workspace.verbs import Resume, ShowStatus, Whoami
from world.workspace import HOUR, MINUTE, OWNER, START, Workspace


def log_time(workspace: Workspace) -> int:
    """The time of the log in milliseconds since 1970."""
    now = datetime.fromisoformat(workspace.call(OWNER, ShowStatus())["now"])
    return (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_log_time_runs_at_half_speed_while_the_clock_is_behind(workspace: Workspace) -> None:
    workspace.join("otto")
    workspace.ms -= 5 * HOUR
    workspace.call(OWNER, Resume())  # takes the turn and appends nothing
    assert log_time(workspace) == START
    for minutes in (10, 20, 30):
        workspace.ms += 10 * MINUTE
        assert log_time(workspace) == START + minutes * MINUTE // 2
    workspace.join("vera")
    workspace.ms += 10 * MINUTE
    assert log_time(workspace) == START + 20 * MINUTE


def test_lease_expires_after_the_clock_was_set_back_by_hours(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, AcquireClaim(item="B-1", ttl_s=60))
    workspace.ms -= 5 * HOUR
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    workspace.ms += 119_000
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    workspace.ms += 1_000
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is True


def test_many_quick_writes_do_not_slow_log_time_below_half_speed(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.ms -= HOUR
    workspace.send(otto, "@vera")
    for _ in range(100):
        workspace.ms += 1
        workspace.send(otto, "@vera")
    assert START + 49 <= log_time(workspace) <= START + 50


def test_log_time_does_not_go_back_while_the_clock_runs_on(workspace: Workspace) -> None:
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=30 * 60)
    workspace.ms -= 2 * HOUR
    workspace.call(OWNER, Resume())
    seen, expired = [log_time(workspace)], []
    for _ in range(30):
        workspace.ms += 10 * MINUTE
        seen.append(log_time(workspace))
        try:
            workspace.call(brief, Whoami())
        except errors.TokenExpired:
            expired.append(True)
        else:
            expired.append(False)
    assert expired == sorted(expired), "an expired token stays expired"
    assert seen == sorted(seen)
    assert seen[-1] == workspace.ms, "log time and clock agree at the end"


def test_fact_times_never_decrease_when_the_clock_jumps(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    for hours in (1, -5, 0, 3, -1, -12, 24, 0, -30):
        workspace.ms += hours * HOUR
        workspace.send(otto, "@vera")
    times = [fact["at"] for fact in workspace.facts()]
    assert times == sorted(times)
    assert audit.verify(workspace.node)["ok"]
