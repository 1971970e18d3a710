"""Random attributes and domains for property tests."""

from __future__ import annotations

import datetime

from hypothesis import strategies as st

from reticent.domain import NULL_LABEL, OTHER_LABEL, Attribute, Categorical, Domain, Integer, Numeric

extras = st.fixed_dictionaries({}, optional={"nullable": st.booleans(), "other": st.sampled_from([None, True, False])})
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6).filter(
    lambda text: text not in (NULL_LABEL, OTHER_LABEL)
)
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda name: name.isprintable() and not name.startswith("__")
)
numbers = st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6), st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def categoricals(draw: st.DrawFn) -> Categorical:
    values = draw(
        st.one_of(
            st.lists(texts, min_size=1, max_size=4, unique=True),
            st.lists(numbers, min_size=1, max_size=4, unique_by=float),
            st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
        )
    )
    return Categorical(values, **draw(extras))


@st.composite
def numerics(draw: st.DrawFn) -> Numeric:
    outside = draw(st.sampled_from(["clamp", "other"]))
    kind = draw(st.sampled_from(["whole", "real", "date", "datetime"]))
    edges = {
        "whole": st.integers(-(10**6), 10**6),
        "real": numbers,
        "date": st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
        "datetime": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
    }[kind]
    key = float if kind in ("whole", "real") else None
    listed = sorted(draw(st.lists(edges, min_size=2, max_size=5, unique_by=key or (lambda edge: edge))))
    return Numeric(edges=listed, whole=kind == "whole", outside=outside, **draw(extras))


def attributes() -> st.SearchStrategy[Attribute]:
    return st.one_of(categoricals(), numerics(), st.builds(Integer, st.integers(1, 9)))


def domains(max_size: int = 4) -> st.SearchStrategy[Domain]:
    entries = st.lists(
        st.tuples(names, attributes()), min_size=1, max_size=max_size, unique_by=lambda entry: entry[0].lower()
    )
    return st.builds(lambda pairs: Domain(dict(pairs)), entries)
