"""SCRAM-SHA-256 (RFC 5802, RFC 7677) with tokens as passwords: the server stores verifiers, never tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from reticent.service.auth import Verifier
from reticent.service.postgres.failures import ProtocolViolation

MECHANISM = "SCRAM-SHA-256"
LONGEST_NONCE = 256


@dataclass
class Exchange:
    """The server's side of one exchange: two messages from the client, two replies."""

    verifier: Verifier
    _bare: str = ""
    _first: str = ""
    _header: str = ""
    _nonce: str = ""

    def first(self, message: bytes) -> bytes:
        """The reply to the client's first message: our nonce, the salt and the number of iterations."""
        text = _ascii(message)
        flag, _, rest = text.partition(",")
        authorized, _, bare = rest.partition(",")
        if flag.startswith("p"):
            raise ProtocolViolation("channel binding is not offered here")
        if flag not in ("n", "y") or authorized:
            raise ProtocolViolation("the first message of the password exchange is malformed")
        parts = _attributes(bare)
        theirs = parts.get("r", "")
        if "m" in parts or "n" not in parts or not theirs or len(theirs) > LONGEST_NONCE:
            raise ProtocolViolation("the first message of the password exchange is malformed")
        salt = base64.b64encode(self.verifier.salt).decode()
        self._bare, self._header = bare, f"{flag},,"
        self._nonce = theirs + secrets.token_urlsafe(18)
        self._first = f"r={self._nonce},s={salt},i={self.verifier.iterations}"
        return self._first.encode()

    def last(self, message: bytes) -> bytes | None:
        """The server's proof, if the client has proven that it knows the token; None if not."""
        text = _ascii(message)
        unproven, _, _ = text.rpartition(",p=")
        parts = _attributes(text)
        header = base64.b64encode(self._header.encode()).decode()
        if not unproven or parts.get("c") != header or parts.get("r") != self._nonce:
            raise ProtocolViolation("the last message of the password exchange is malformed")
        try:
            proof = base64.b64decode(parts.get("p", ""), validate=True)
        except (binascii.Error, ValueError):
            raise ProtocolViolation("the last message of the password exchange is malformed") from None
        signed = f"{self._bare},{self._first},{unproven}".encode()
        signature = hmac.digest(self.verifier.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self.verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self.verifier.server_key, signed, "sha256"))


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise ProtocolViolation("a message of the password exchange is not ASCII") from None


def _attributes(text: str) -> dict[str, str]:
    """name=value, separated by commas; a user's name is ignored, as PostgreSQL does: the startup message has it."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name in found:
            raise ProtocolViolation("a message of the password exchange is malformed")
        found[name] = value
    return found
