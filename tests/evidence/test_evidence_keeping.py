"""The stored output of a run: its first and last bytes, and both streams in their order."""

import os
import random
from contextlib import closing

import pytest

from interlock.evidence.output import MAX_WAITING, Keeper, Transcript

TOKEN = "gh" + "p_" + "aB3" * 12


def kept(path: str, limit: int, blocks: list[bytes]) -> tuple[bytes, bool]:
    with closing(Keeper(path, limit)) as keeper:
        for block in blocks:
            keeper.write(block)
        cut = keeper.finish()
    with open(path, "rb") as file:
        return file.read(), cut


def expected(limit: int, data: bytes) -> tuple[bytes, bool]:
    if len(data) <= limit:
        return data, False
    half = limit // 2
    line = f"\n[interlock: {len(data) - limit} bytes are not stored]\n".encode()
    return data[:half] + line + data[len(data) - (limit - half) :], True


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 64, 1000, 1001])
def test_the_first_and_the_last_half_are_stored_for_any_blocks(
    tmp_path: os.PathLike[str], limit: int
) -> None:
    chance = random.Random(limit)
    path = os.path.join(tmp_path, "output")
    for size in (0, 1, limit - 1, limit, limit + 1, 2 * limit, 3 * limit + 7, 5000):
        data = chance.randbytes(max(0, size))
        for largest in (1, 7, limit + 1, 3 * limit + 5):
            blocks, at = [], 0
            while at < len(data):
                step = chance.randrange(1, largest + 1)
                blocks.append(data[at : at + step])
                at += step
            assert kept(path, limit, blocks) == expected(limit, data)
            assert os.listdir(tmp_path) == ["output"]


def test_the_file_never_grows_above_the_limit(
    tmp_path: os.PathLike[str],
) -> None:
    path = os.path.join(tmp_path, "output")
    with closing(Keeper(path, 100_000)) as keeper:
        for _ in range(100):
            keeper.write(bytes(30_000))
            assert os.path.getsize(path) <= 100_000


class Written:
    """A transcript and its file."""

    def __init__(self, directory: os.PathLike[str]) -> None:
        self.path = os.path.join(directory, "output")
        self.keeper = Keeper(self.path, 1 << 20)
        self.transcript = Transcript(self.keeper)

    def add(self, *arrivals: tuple[int, str]) -> "Written":
        for stream, text in arrivals:
            self.transcript.add(stream, text.encode())
        return self

    def text(self) -> str:
        self.transcript.finish()
        self.keeper.close()
        with open(self.path, encoding="utf-8") as file:
            return file.read()


def test_both_streams_are_stored_in_the_order_of_arrival(tmp_path: os.PathLike[str]) -> None:
    written = Written(tmp_path).add((0, "a"), (1, "b"), (0, "c\nd"), (1, "e\n"), (0, "f"), (1, "g"))
    assert written.text() == "abc\nde\nfg"
    assert written.transcript.produced == 9


def test_a_secret_that_the_other_stream_interrupts_is_masked_at_its_start(
    tmp_path: os.PathLike[str],
) -> None:
    arrivals = [(0, "out " + TOKEN[:3]), (1, "err\n"), (0, TOKEN[3:] + " rest\n"), (1, "end\n")]
    written = Written(tmp_path).add(*arrivals)
    assert written.text() == "out [masked]err\n rest\nend\n"
    assert written.transcript.masked == 1
    assert written.transcript.produced == sum(len(text) for _, text in arrivals)


def test_each_stream_has_its_own_masker(tmp_path: os.PathLike[str]) -> None:
    written = Written(tmp_path).add((0, TOKEN[:20]), (1, TOKEN[:20]), (0, TOKEN[20:] + "!"))
    assert written.add((1, TOKEN[20:] + "?")).text() == "[masked][masked]!?"
    assert written.transcript.masked == 2


def test_an_unfinished_line_does_not_block_the_other_stream(
    tmp_path: os.PathLike[str],
) -> None:
    line = "x" * 1023 + "\n"
    many = 3 * MAX_WAITING // len(line)
    written = Written(tmp_path).add((0, "working..."), *([(1, line)] * many))
    assert os.path.getsize(written.path) > MAX_WAITING
    text = written.add((0, "done\n")).text()
    assert text.replace("working...", "").replace("done\n", "") == line * many
    assert text.index("working...") < text.index("done\n")


def test_random_arrivals_are_stored_completely_and_in_order(
    tmp_path: os.PathLike[str],
) -> None:
    chance = random.Random(7)
    written = Written(tmp_path)
    sent: dict[int, str] = {0: "", 1: ""}
    for _ in range(3000):
        stream = chance.randrange(2)
        letters = "abc \n" if stream == 0 else "xyz \t"
        text = "".join(chance.choice(letters) for _ in range(chance.randrange(1, 200)))
        sent[stream] += text
        written.add((stream, text))
    text = written.text()
    for stream, letters in ((0, "abc\n"), (1, "xyz\t")):
        assert [c for c in text if c in letters] == [c for c in sent[stream] if c in letters]
    assert len(text) == len(sent[0]) + len(sent[1])
