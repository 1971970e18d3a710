"""Linear algebra on one thread.

The products of fits and plans are short: more threads gain nothing, and on a busy machine those without work spin
(nine times the processor time of a release of fourteen columns, measured).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["on_one_thread"]


P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Linear algebra keeps to one thread while this function runs."""

    @wraps(function)
    def limited(*given: P.args, **named: P.kwargs) -> T:
        import scipy.linalg  # noqa: F401  (its library is another than NumPy's, and must be loaded to be limited)

        with threadpool_limits(1, user_api="blas"):
            return function(*given, **named)

    return limited
