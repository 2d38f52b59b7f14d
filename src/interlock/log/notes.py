"""Signed checkpoints: the size and root of the log at one time, as text that readers can check.

The formats are C2SP's signed-note (Ed25519 only) and tlog-checkpoint (without extension lines), so
that tools and witnesses of the transparency ecosystem can read them. This module neither makes keys
nor decides which signers to trust.
"""

from binascii import a2b_base64, b2a_base64
from hashlib import sha256
from typing import NamedTuple

KEY_BYTES = 32

# Readers must accept sixteen signatures of any kind, including large post-quantum ones.
MAX_NOTE = 128 * 1024

_ED25519 = b"\x01"
_ID_BYTES = 4
_SIGNATURE_BYTES = 64
_ROOT_BYTES = 32
_MAX_SIZE = 2**64 - 1
_DASH = "\u2014 "


class Checkpoint(NamedTuple):
    """The root of the log called `origin` when it had `size` leaves."""

    origin: str
    size: int
    root: bytes

    def body(self) -> str:
        """The text that is signed: three lines, each with its newline."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"


def public_key(seed: bytes) -> bytes:
    """The public half of an Ed25519 key, from its 32-byte seed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    _require_key(seed)
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(checkpoint: Checkpoint, name: str, private_key: bytes) -> str:
    """Return the whole note: the checkpoint's body and the signature of `name` over it.

    `private_key` is the 32-byte seed. Raise ValueError for a checkpoint that `open_note` would
    refuse.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    _require_name(name)
    _require_key(private_key)
    body = checkpoint.body()
    if _parse_body(body) != checkpoint:
        raise ValueError("the checkpoint cannot be written as lines and read again")
    key = Ed25519PrivateKey.from_private_bytes(private_key)
    signature = key.sign(_utf8(body))
    key_id = _key_id(name, key.public_key().public_bytes_raw())
    note = f"{body}\n{_DASH}{name} {_base64(key_id + signature)}\n"
    _split(note)
    return note


def open_note(text: str, name: str, public_key: bytes) -> Checkpoint:
    """Return the checkpoint in a note that `name` signed with the private key of `public_key`.

    Ignore signatures of other keys. Raise ValueError, with the reason, if the text is malformed or
    its signature is bad. Raise it also if this key did not sign the text, or signed it twice.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    _require_name(name)
    _require_key(public_key)
    body, signatures = _split(text)
    key_id = _key_id(name, public_key)
    ours = [blob for signer, blob in signatures if signer == name and blob.startswith(key_id)]
    if not ours:
        raise ValueError(f"the note is not signed by {name} with key {key_id.hex()}")
    if len(ours) > 1:
        raise ValueError(f"the note is signed more than once by {name}")
    signature = ours[0][_ID_BYTES:]
    if len(signature) != _SIGNATURE_BYTES:
        raise ValueError(f"an Ed25519 signature has {_SIGNATURE_BYTES} bytes, not {len(signature)}")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _utf8(body))
    except InvalidSignature:
        raise ValueError(f"the signature of {name} is not valid for the note's text") from None
    # Parse the body only now: an unverified text must not be read as a checkpoint.
    return _parse_body(body)


def verifier_key(name: str, public_key: bytes) -> str:
    """Return the line that readers need to check notes: `name+key id+base64 of type and key`."""
    _require_name(name)
    _require_key(public_key)
    return f"{name}+{_key_id(name, public_key).hex()}+{_base64(_ED25519 + public_key)}"


def parse_verifier_key(text: str) -> tuple[str, bytes]:
    """Return the name and public key of a verifier key, in the order that `open_note` takes them.

    Raise ValueError unless `verifier_key` makes exactly this text of them.
    """
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise ValueError("a verifier key has the form name+id+key")
    name, _, encoded = parts
    key = _unbase64(encoded, "verifier key")
    if not key.startswith(_ED25519):
        raise ValueError("the verifier key is not an Ed25519 key")
    if verifier_key(name, key[1:]) != text:
        raise ValueError("the verifier key's id does not belong to its name and key")
    return name, key[1:]


def _split(text: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the signed text, and each signature as its signer's name and bytes (key id first)."""
    if len(text) > MAX_NOTE:
        raise ValueError(f"the note is longer than {MAX_NOTE} characters")
    _utf8(text)
    if any(char < " " and char != "\n" for char in text):
        raise ValueError("the note has a control character")
    # Only the signed text may contain blank lines, so the last one separates it from signatures.
    body, border, tail = text.rpartition("\n\n")
    if not border or not tail.endswith("\n"):
        raise ValueError("the note is not a text, a blank line and signature lines")
    signatures = []
    for line in tail[:-1].split("\n"):
        parts = line.removeprefix(_DASH).split(" ")
        if not line.startswith(_DASH) or len(parts) != 2:
            raise ValueError("a signature line is a dash, a name and a signature, with spaces")
        name, encoded = parts
        _require_name(name)
        blob = _unbase64(encoded, "signature")
        if len(blob) <= _ID_BYTES:
            raise ValueError("a signature is too short to hold more than its key id")
        signatures.append((name, blob))
    return body + "\n", signatures


def _parse_body(body: str) -> Checkpoint:
    lines = body.removesuffix("\n").split("\n")
    if len(lines) != 3:
        raise ValueError("a checkpoint has exactly three lines")
    origin, digits, encoded = lines
    if not origin:
        raise ValueError("the checkpoint has no origin")
    # Check the length first: int() is slow on long numbers.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_SIZE))):
        raise ValueError("the checkpoint's size is not a plain number")
    size = int(digits)
    if str(size) != digits or size > _MAX_SIZE:
        raise ValueError("the checkpoint's size has leading zeros or is too large")
    root = _unbase64(encoded, "checkpoint's root")
    if len(root) != _ROOT_BYTES:
        raise ValueError(f"the checkpoint's root has {len(root)} bytes, not {_ROOT_BYTES}")
    return Checkpoint(origin, size, root)


def _key_id(name: str, public_key: bytes) -> bytes:
    return sha256(_utf8(name) + b"\n" + _ED25519 + public_key).digest()[:_ID_BYTES]


def _require_name(name: str) -> None:
    if not name or "+" in name or any(char.isspace() or char < " " for char in name):
        raise ValueError("a signer's name is not empty and has neither spaces nor a plus")


def _require_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise ValueError(f"an Ed25519 key has {KEY_BYTES} bytes, not {len(key)}")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text cannot be written as UTF-8") from None


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def _unbase64(text: str, what: str) -> bytes:
    """Decode only the canonical form: two texts must never encode the same bytes."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except ValueError:
        raise ValueError(f"the {what} is not base64") from None
    if _base64(data) != text:
        raise ValueError(f"the {what} is not canonical base64")
    return data
