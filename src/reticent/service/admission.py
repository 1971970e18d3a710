"""Who is let in and how often: one decision for every door, by token, by rate, and by failures from one address."""

from __future__ import annotations

from reticent.service.auth import Principal, Tokens
from reticent.service.http.limits import Buckets
from reticent.service.http.problems import HttpProblem
from reticent.service.settings import Settings
from reticent.service.verifiers import Verifier


class Admission:
    """The tokens of a server and the limits of those who hold them, shared by HTTP and PostgreSQL.

    `share` processes accept requests beside each other, so each allows its part.
    """

    def __init__(self, settings: Settings, tokens: Tokens, share: int = 1) -> None:
        self._tokens = tokens
        self._buckets = Buckets(settings.rate / share, settings.burst / share)
        self._failures = Buckets(settings.wrong_tokens, 4 * settings.wrong_tokens)

    def by_token(self, token: str, client: str) -> Principal:
        """Whose token this is; a refused one counts against the address it came from."""
        try:
            if not token:
                raise HttpProblem("unauthorized", "send the header 'Authorization: Bearer <token>'")
            return self._tokens.find(token)
        except HttpProblem:
            self.failed(client)
            raise

    def known(self, token: str) -> Principal | None:
        """Whose token this is; None counts nothing, so that `by_token` can refuse it."""
        try:
            return self._tokens.find(token)
        except HttpProblem:
            return None

    def verifier(self, name: str) -> tuple[Principal | None, Verifier]:
        """What verifies the token of whoever has this name, where the token itself is not sent."""
        return self._tokens.verifier(name)

    def failed(self, client: str) -> None:
        """Problem `rate` when this address has sent too many wrong tokens."""
        self._failures.take(client)

    def still(self, principal: Principal) -> Principal:
        """On a connection that stays open: whether the token is still good."""
        return self._tokens.still(principal)

    def count(self, principal: Principal) -> None:
        """Problem `rate` when this person asks too often."""
        self._buckets.take(principal.id)

    def wait(self, principal: Principal) -> float:
        """Seconds to wait before the next statement; 0 lets it pass and counts it."""
        return self._buckets.wait(principal.id)

    def give_back(self, principal: Principal) -> None:
        """Undo the last count: the same request is counted again elsewhere in this process."""
        self._buckets.give_back(principal.id)
