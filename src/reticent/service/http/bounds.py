"""Bounds of what clients may send and get, each in this one place; what an operator may change is in `settings`."""

from __future__ import annotations

SQL_LENGTH = 20_000
"""Characters of a statement."""
MOST_LOSSES = 1000
"""In one batch."""
PUBLISHED_ROWS = 1_000_000
"""Synthetic rows of one published release."""
LONGEST_TITLE = 200
LONGEST_ERROR = 40
"""Characters of a wanted error that is a percentage."""
LONGEST_PAGE = 200
"""Entries of the history at once."""
LONGEST_TOKEN_DAYS = 3650
MOST_TOKEN_TABLES = 100
HEAD_LIMIT = 32_768
"""Bytes of a head that may arrive piecemeal; what arrives at once is bounded by the socket's buffer."""
LARGEST_NUMBER = 2**53
"""Of events and answers; beyond it JSON's numbers are not exact."""
LONGEST_TICK = 60.0
"""Seconds."""
TABLE_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
RELEASE_NAME = r"r[0-9]{4,8}"
PERSON_NAME = r"[a-z0-9][a-z0-9._-]{0,39}"
KEY = r"[A-Za-z0-9._~-]{1,64}"
LONGEST_DETAIL = 500
"""Characters of a problem's detail; what a client sent is not sent back at length."""
