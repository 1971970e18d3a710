"""What verifies a token in a SCRAM-SHA-256 exchange (RFC 5802): salted keys from which no token can be computed."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

ITERATIONS = 4096
"""RFC 7677's least: the secret has 256 random bits, so more would only slow honest clients down."""
SALT_BYTES = 16


@dataclass(frozen=True)
class Verifier:
    """StoredKey and ServerKey of RFC 5802, section 3."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def verifier_of(token: str) -> Verifier:
    """A fresh verifier of this token; tokens are ASCII, so SASLprep leaves them as they are."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(salt, ITERATIONS, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


def mock_verifier(secret: bytes, name: str) -> Verifier:
    """For a name without a token: always the same salt, as a real one has, and keys that nothing matches."""
    salt = hmac.digest(secret, name.encode(), "sha256")[:SALT_BYTES]
    return Verifier(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))
