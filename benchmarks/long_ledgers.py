"""Long ledgers, made fast: events of paid counts and groups as a session writes them, without rows, noise or flushes.

A session begins the ledger. Then requests are described by the kernel, events are encoded and linked by the ledger's
own functions, and one transaction stores many of them; values are drawn at random, since no opening looks at rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import pack_array
from reticent.kernel.ledger.anchor import Anchor, Mark, places
from reticent.kernel.ledger.events import Event, canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.table import Table
from reticent.queries.groups import Groups
from reticent.queries.linear import Range
from reticent.sessions.journal import ASK
from reticent.sessions.session import Session

CODES = 64
DOMAIN = Domain({"a": CODES, "b": CODES, "c": CODES})
RECORDS = 100_000
BUDGET = Budget(rho=10**6)
NOISE = Gaussian(40)
BATCH = 20_000
