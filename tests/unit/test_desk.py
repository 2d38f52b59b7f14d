"""The desk, with a counter behind it instead of a log."""

from collections.abc import Callable

from interlock.node.desk import Desk, Ticket


def test_what_nobody_need_wait_for_is_done_after_the_answers_and_before_the_next_turn() -> None:
    done: list[str] = []

    def serve(collect: Callable[[], list[Ticket]], wait: bool) -> Callable[[], None]:
        for ticket in collect():
            ticket.result = ticket.work(None)
        done.append("turn")
        return lambda: done.append("afterwards")

    desk = Desk(serve)
    assert desk.submit(lambda _: "answer") == "answer"
    desk.post(lambda _: None, lambda _: done.append("answer"))
    desk.close()
    assert done == ["turn", "afterwards", "turn", "answer", "afterwards"]
