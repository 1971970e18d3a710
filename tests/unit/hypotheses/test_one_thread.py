"""Fits do not wake threads of linear algebra that would spin."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from reticent.hypotheses.one_thread import on_one_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_linear_algebra_has_one_thread_and_gets_the_others_back() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()

        @on_one_thread
        def inside(fails: bool) -> set[int]:
            if fails:
                raise ZeroDivisionError
            return threads()

        assert inside(False) == {1}
        with pytest.raises(ZeroDivisionError):
            inside(True)
        assert threads() == before
