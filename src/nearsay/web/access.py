"""Who may do what: tokens with names and roles, of a file or an environment variable."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nearsay.errors import InputError, NearsayError

# Each may do what those before it may: read; correct and add; learn again.
ROLES = ("read", "label", "admin")
# The author in the history where there is one token, or none.
THE_PAGE = "the page"
# Where a request notes who sent it, and the route that answered it.
ACCESS, ROUTE, ROOT = "nearsay.access", "nearsay.route", "nearsay.root"
SHORTEST_SECRET = 16


class Forbidden(NearsayError):
    """The token does not allow this."""


@dataclass(frozen=True)
class AccessToken:
    """A token, whose it is, and what it allows.

    >>> AccessToken("ada", "label", "x" * 16).allows("read"), AccessToken("bob", "read", "y" * 16).allows("label")
    (True, False)
    """

    name: str
    role: str
    secret: str = field(repr=False)

    def allows(self, role: str) -> bool:
        """Whether it allows what this role may do."""
        return ROLES.index(self.role) >= ROLES.index(role)


NO_TOKEN = AccessToken(THE_PAGE, "admin", "")


def read_tokens(text: str, where: str) -> list[AccessToken]:
    """Tokens of lines ``NAME ROLE TOKEN``; empty lines and comments are skipped. One word alone is an admin's token.

    >>> read_tokens("ada label 0123456789abcdef\\n# a comment\\nbob read fedcba9876543210", "tokens.txt")
    [AccessToken(name='ada', role='label'), AccessToken(name='bob', role='read')]
    >>> read_tokens("0123456789abcdef", "NEARSAY_TOKEN")
    [AccessToken(name='the page', role='admin')]
    """
    tokens: list[AccessToken] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 1:
            words = [THE_PAGE, "admin", words[0]]
        if len(words) != 3 and words[:2] != [THE_PAGE, "admin"]:
            raise InputError(f"{where}, line {number}: expected NAME ROLE TOKEN; got {len(words)} words.")
        name, role, secret = words
        if role not in ROLES:
            raise InputError(f"{where}, line {number}: {role!r} is no role. Roles: {', '.join(ROLES)}.")
        if len(secret) < SHORTEST_SECRET:
            raise InputError(f"{where}, line {number}: a token needs at least {SHORTEST_SECRET} characters.")
        if any(secret == each.secret for each in tokens):
            raise InputError(
                f"{where}, line {number}: this token is there already. Give everybody a token of their own."
            )
        tokens.append(AccessToken(name, role, secret))
    if not tokens:
        raise InputError(f"{where} holds no token. Write a line for each: NAME ROLE TOKEN.")
    return tokens


class Sessions:
    """Tokens, and a session for each, which is what its cookie holds: the token itself is not in every request."""

    def __init__(self, tokens: Sequence[AccessToken]) -> None:
        self._by_token = [(token.secret, token) for token in tokens]
        self._by_session = [(secrets.token_urlsafe(32), token) for token in tokens]

    def of_token(self, secret: str) -> AccessToken | None:
        """Whose token this is."""
        return _equal_one(secret, self._by_token)

    def of_session(self, session: str) -> AccessToken | None:
        """Whose session this is."""
        return _equal_one(session, self._by_session)

    def session(self, token: AccessToken) -> str:
        """The session of a token."""
        return next(session for session, each in self._by_session if each is token)


def _equal_one(given: str, known: Iterable[tuple[str, AccessToken]]) -> AccessToken | None:
    """The token that belongs to a secret; all are compared, so that the time says nothing."""
    right = None
    for secret, token in known:
        if hmac.compare_digest(given.encode(), secret.encode()):
            right = token
    return right
