"""Signed checkpoints: a signed note opens, and a changed note does not."""

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from interlock.log.notes import (
    MAX_NOTE,
    Checkpoint,
    open_note,
    parse_verifier_key,
    public_key,
    sign,
    verifier_key,
)

NAME = "interlock.example/w1"
SEED = bytes(range(32))
PUBLIC = public_key(SEED)
OTHER_SEED = bytes(range(1, 33))
CHECKPOINT = Checkpoint("interlock.example/w1", 42, hashlib.sha256(b"root").digest())
NOTE = sign(CHECKPOINT, NAME, SEED)
DASH = "\N{EM DASH}"


def note_by_hand(body: str, name: str = NAME, seed: bytes = SEED) -> str:
    """Sign any body correctly, without the code under test."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes_raw()
    key_id = hashlib.sha256(name.encode() + b"\x0a\x01" + public).digest()[:4]
    signature = base64.b64encode(key_id + key.sign(body.encode())).decode()
    return f"{body}\n{DASH} {name} {signature}\n"


def test_a_note_has_the_documented_format() -> None:
    root = base64.b64encode(hashlib.sha256(b"root").digest()).decode()
    assert CHECKPOINT.body() == f"interlock.example/w1\n42\n{root}\n"
    assert note_by_hand(CHECKPOINT.body()) == NOTE


def test_a_public_logs_published_checkpoint_opens() -> None:
    signer = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
    root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    note = (
        f"go.sum database tree\n20852163\n{root}\n\n{DASH} sum.golang.org Az3grlgtzPICa5OS8npVmf1"
        "Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    )
    checkpoint = open_note(note, *parse_verifier_key(signer))
    assert checkpoint == ("go.sum database tree", 20852163, base64.b64decode(root))


def test_the_public_key_is_the_one_of_rfc_8032() -> None:
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert public_key(seed).hex() == public


names = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters="+"),
    min_size=1,
    max_size=20,
)
origins = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
seeds = st.binary(min_size=32, max_size=32)


@given(origins, st.integers(0, 2**64 - 1), seeds, names, seeds)
def test_a_signed_note_opens(origin: str, size: int, root: bytes, name: str, seed: bytes) -> None:
    checkpoint = Checkpoint(origin, size, root)
    public = public_key(seed)
    assert open_note(sign(checkpoint, name, seed), name, public) == checkpoint
    assert parse_verifier_key(verifier_key(name, public)) == (name, public)


def test_every_change_of_a_single_character_is_refused() -> None:
    others = "\n \t=A0+\0\N{LINE SEPARATOR}\N{EN DASH}\ud800"
    for at, char in enumerate(NOTE):
        near = {chr(ord(char) ^ 1 << bit) for bit in range(7)}
        for other in near | set(others) - {char}:
            assert_refused(NOTE[:at] + other + NOTE[at + 1 :])
        for other in others + char:
            assert_refused(NOTE[:at] + other + NOTE[at:])
        assert_refused(NOTE[:at] + NOTE[at + 1 :])
        assert_refused(NOTE[:at])
    for other in others:
        assert_refused(NOTE + other)


def assert_refused(text: str) -> None:
    with pytest.raises(ValueError):
        open_note(text, NAME, PUBLIC)


@given(st.text(st.characters()))
def test_arbitrary_text_is_refused_with_a_value_error(text: str) -> None:
    assert_refused(text)
    assert_refused(f"{text}\n\n{DASH} {text}\n")
    word = text.replace(" ", "")  # two words may be the signature of another key, which is ignored
    assert_refused(f"{NOTE}{DASH} {word}\n")
    with pytest.raises(ValueError):
        parse_verifier_key(text)
    with pytest.raises(ValueError):
        parse_verifier_key(f"{NAME}+{text}")


ROOT = base64.b64encode(CHECKPOINT.root).decode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "not a text"),
        ("origin\n42\n", "three lines"),
        (f"origin\n42\n{ROOT}\nextension\n", "three lines"),
        (f"origin\n42\n{ROOT}\n\n", "three lines"),
        (f"\n42\n{ROOT}\n", "no origin"),
        (f"origin\n\n{ROOT}\n", "not a plain number"),
        (f"origin\n-1\n{ROOT}\n", "not a plain number"),
        (f"origin\n+1\n{ROOT}\n", "not a plain number"),
        (f"origin\n 1\n{ROOT}\n", "not a plain number"),
        (f"origin\n1_0\n{ROOT}\n", "not a plain number"),
        (f"origin\n\N{ARABIC-INDIC DIGIT ONE}\n{ROOT}\n", "not a plain number"),
        (f"origin\n{'9' * 5000}\n{ROOT}\n", "not a plain number"),
        (f"origin\n042\n{ROOT}\n", "leading zeros"),
        (f"origin\n00\n{ROOT}\n", "leading zeros"),
        (f"origin\n{2**64}\n{ROOT}\n", "too large"),
        ("origin\n42\n\n", "0 bytes"),
        ("origin\n42\nAAAA\n", "3 bytes"),
        (f"origin\n42\n{ROOT}AAAA\n", "not base64"),
        (f"origin\n42\n{ROOT[:-1]}\n", "not base64"),
        (f"origin\n42\n{ROOT[:4]} {ROOT[4:]}\n", "not base64"),
        (f"origin\n42\n{'A' * 42}B=\n", "base64"),
        (f"origin\n42\n{'-' * 43}=\n", "not base64"),
        (f"origin\t\n42\n{ROOT}\n", "control character"),
        (f"origin\r\n42\r\n{ROOT}\r\n", "control character"),
    ],
)
def test_a_malformed_checkpoint_with_a_valid_signature_is_refused(body: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        open_note(note_by_hand(body), NAME, PUBLIC)


def test_a_size_of_zero_is_accepted() -> None:
    checkpoint = CHECKPOINT._replace(size=0)
    assert open_note(note_by_hand(checkpoint.body()), NAME, PUBLIC) == checkpoint


def test_a_note_signed_by_another_key_or_name_is_refused() -> None:
    for name, seed in ((NAME, OTHER_SEED), ("interlock.example/w2", SEED)):
        with pytest.raises(ValueError, match="not signed by"):
            open_note(note_by_hand(CHECKPOINT.body(), name, seed), NAME, PUBLIC)


def test_a_signature_of_another_text_is_refused() -> None:
    _, signatures = note_by_hand(CHECKPOINT._replace(size=41).body()).split("\n\n")
    with pytest.raises(ValueError, match="is not valid for"):
        open_note(f"{CHECKPOINT.body()}\n{signatures}", NAME, PUBLIC)


def signature_line(name: str, blob: bytes) -> str:
    return f"{DASH} {name} {base64.b64encode(blob).decode()}\n"


def test_signatures_of_unknown_keys_are_ignored() -> None:
    body, ours = NOTE.split("\n\n")
    witness = note_by_hand(CHECKPOINT.body(), "witness.example", OTHER_SEED).split("\n\n")[1]
    namesake = signature_line(NAME, b"\0" * 68)
    large = signature_line("post-quantum.example", b"\1" * 5000)
    for lines in (ours + witness, witness + ours, namesake + ours, ours + large * 16):
        assert open_note(f"{body}\n\n{lines}", NAME, PUBLIC) == CHECKPOINT


def test_two_signatures_by_one_key_are_refused() -> None:
    body, ours = NOTE.split("\n\n")
    with pytest.raises(ValueError, match="more than once"):
        open_note(f"{body}\n\n{ours}{ours}", NAME, PUBLIC)


def our_key_id() -> bytes:
    return bytes.fromhex(verifier_key(NAME, PUBLIC).split("+")[1])


@pytest.mark.parametrize("length", [1, 63, 65])
def test_a_signature_of_the_wrong_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        open_note(
            f"{CHECKPOINT.body()}\n{signature_line(NAME, our_key_id() + bytes(length))}",
            NAME,
            PUBLIC,
        )


@pytest.mark.parametrize(
    "line",
    [
        "\n",
        f"{DASH}\n",
        f"{DASH} \n",
        f"{DASH} name\n",
        f"{DASH} name \n",
        f"{DASH} name AAAA\n",
        f"{DASH} name AAAAAAA\n",
        f"{DASH} name AAAAAAB=\n",
        f"{DASH} name AAAAAAA= \n",
        f"{DASH}  AAAAAAA=\n",
        f"{DASH} na+me AAAAAAA=\n",
        f"{DASH} na\N{NO-BREAK SPACE}me AAAAAAA=\n",
        f"{DASH} \ud800 AAAAAAA=\n",
        "- name AAAAAAA=\n",
        "name AAAAAAA=\n",
    ],
)
def test_a_note_with_one_malformed_signature_line_is_refused(line: str) -> None:
    assert open_note(f"{NOTE}{DASH} name AAAAAAA=\n", NAME, PUBLIC) == CHECKPOINT
    assert_refused(NOTE + line)


def test_non_canonical_base64_of_a_good_signature_is_refused() -> None:
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    assert NOTE.endswith("=\n")
    last = digits.index(NOTE[-3])
    same_bytes = f"{NOTE[:-3]}{digits[last + 1]}=\n"
    blobs = [base64.b64decode(note.split(" ")[-1]) for note in (NOTE, same_bytes)]
    assert blobs[0] == blobs[1]
    with pytest.raises(ValueError, match="base64"):
        open_note(same_bytes, NAME, PUBLIC)


def test_a_huge_note_is_refused_unread() -> None:
    with pytest.raises(ValueError, match="longer than"):
        open_note("\n" * (MAX_NOTE + 1), NAME, PUBLIC)


@pytest.mark.parametrize(
    "checkpoint",
    [
        CHECKPOINT._replace(origin=""),
        CHECKPOINT._replace(origin="two\nlines"),
        CHECKPOINT._replace(origin="bell\a"),
        CHECKPOINT._replace(origin="\ud800"),
        CHECKPOINT._replace(origin="x" * MAX_NOTE),
        CHECKPOINT._replace(size=-1),
        CHECKPOINT._replace(size=2**64),
        CHECKPOINT._replace(root=b""),
        CHECKPOINT._replace(root=bytes(31)),
    ],
)
def test_a_checkpoint_that_would_not_open_is_not_signed(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError):
        sign(checkpoint, NAME, SEED)


@pytest.mark.parametrize("name", ["", " ", "a b", "a+b", "a\n", "\N{EM SPACE}", "\0", "\ud800"])
def test_a_name_that_would_break_a_line_is_refused_everywhere(name: str) -> None:
    with pytest.raises(ValueError):
        sign(CHECKPOINT, name, SEED)
    with pytest.raises(ValueError):
        open_note(NOTE, name, PUBLIC)
    with pytest.raises(ValueError):
        verifier_key(name, PUBLIC)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_the_wrong_length_is_refused_everywhere(length: int) -> None:
    key = bytes(length)
    with pytest.raises(ValueError, match="32 bytes"):
        public_key(key)
    with pytest.raises(ValueError, match="32 bytes"):
        sign(CHECKPOINT, NAME, key)
    with pytest.raises(ValueError, match="32 bytes"):
        open_note(NOTE, NAME, key)
    with pytest.raises(ValueError, match="32 bytes"):
        verifier_key(NAME, key)


def test_a_key_that_is_not_a_point_of_the_curve_is_refused() -> None:
    for key in (b"\xff" * 32, b"\2" + bytes(31)):
        key_id = bytes.fromhex(verifier_key(NAME, key).split("+")[1])
        note = f"{CHECKPOINT.body()}\n{signature_line(NAME, key_id + bytes(64))}"
        with pytest.raises(ValueError):
            open_note(note, NAME, key)


def test_a_verifier_key_has_the_documented_format() -> None:
    key_id = hashlib.sha256(NAME.encode() + b"\x0a\x01" + PUBLIC).hexdigest()[:8]
    encoded = base64.b64encode(b"\x01" + PUBLIC).decode()
    assert verifier_key(NAME, PUBLIC) == f"{NAME}+{key_id}+{encoded}"


def test_every_change_of_a_single_character_of_a_verifier_key_is_refused() -> None:
    text = verifier_key(NAME, PUBLIC)
    for at, char in enumerate(text):
        for other in {chr(ord(char) ^ 1 << bit) for bit in range(7)} | set("\n +=\ud800"):
            if other != char:
                with pytest.raises(ValueError):
                    parse_verifier_key(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", "not an Ed25519 key"),
        (b"\x02" + PUBLIC, "not an Ed25519 key"),
        (b"\x01", "32 bytes, not 0"),
        (b"\x01" + PUBLIC + b"\0", "32 bytes, not 33"),
    ],
)
def test_a_verifier_key_of_another_kind_is_refused(key: bytes, reason: str) -> None:
    key_id = hashlib.sha256(NAME.encode() + b"\n" + key).hexdigest()[:8]
    with pytest.raises(ValueError, match=reason):
        parse_verifier_key(f"{NAME}+{key_id}+{base64.b64encode(key).decode()}")
