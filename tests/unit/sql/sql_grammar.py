# ruff: noqa: E501 - one production to a line, as an analyst would type it
"""A grammar of SQL statements about one domain, each in two readings: ours and DuckDB's.

A production is a text with references: `{symbol}` is replaced by one of the symbol's productions, `{name=symbol}` gives
such a text a name and writes nothing, and `{name}` then writes it. Marks tell the readings apart:

- `«column»` is the column's bin for us, whose text DuckDB finds in another column;
- `‹number›` is NULL for us where DuckDB says NaN, as the correlation with a constant;
- `⟨sum⟩` is zero for us where DuckDB says NULL, the sum of no numbers: noise cannot tell them apart;
- `⌈ORDER BY columns⌉` breaks ties, which SQL leaves open, for DuckDB alone, in one of two directions.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import date

from reticent.domain import Categorical, Domain, Integer, Numeric

DOMAIN = Domain(
    amount=Numeric(edges=[-1000, -100, 0, 50, 200, 5000], nullable=True, other=False),
    temp=Numeric(edges=[-20.5, -5, 0, 12.5, 41], other=False),
    dept=Categorical(["Santé", "École", "O'Neil", "zürich öst", "10"], nullable=True, other=True),
    code=Categorical(["007", "7", "NULL", "true"], other=False),
    vip=Categorical([True, False], nullable=True),
    kids=Integer(4),
    day=Numeric(
        edges=[*(date(2023 + month // 12, month % 12 + 1, 1) for month in range(10, 15)), date(2024, 3, 31)],
        nullable=True,
        other=False,
    ),
    pts=Numeric(edges=[0, 5, 10, 18, 99], whole=True, other=False),
)
"""Names like keywords, texts like numbers and NULL, negative and fractional edges, NULLs in every kind of column."""

NESTED = {"number": "column", "condition": "test"}
"""Symbols that contain themselves, each with the symbol that ends the nesting."""
DEPTHS = (0, 0, 1, 2)
"""How deep numbers and conditions nest."""
ENDS_EARLY = 0.5
DISTINCT = "key"
"""A symbol whose productions a statement uses once: what standards call the group of two equal keys differs."""

LISTED = ("rows", "left", "right")
"""Names of subqueries whose groups are counted or looked up."""

_LITERALS = {
    "amount": "0 50 200 -100 -1000 5000 60 -5.5 1e3 10000 0.0",
    "temp": "0 -5 12.5 -20.5 41 3 -0.0 100",
    "kids": "0 1 2 3 1.5 -1 4 7",
    "pts": "0 5 10 18 99 17 9.5 4 120",
}

_TEXT = r"""
column
  amount
  temp
  kids
  pts
number
  ({number} + {number})
  ({number} - {number})
  ({number} * 2)
  ({number} * -1)
  ({number} * 0.5)
  (10 - {number})
  ({number} / 4)
  ABS({number})
  CASE WHEN {condition} THEN {number} ELSE {number} END
  CASE WHEN {condition} THEN {number} ELSE {few} END
  CASE WHEN {condition} THEN {number} ELSE NULL END
  CASE WHEN {condition} THEN {number} END
  COALESCE({number}, {few})
  COALESCE({number}, {number})
  GREATEST({number}, {few})
  GREATEST({number}, {number})
  LEAST({number}, {few})
  LEAST({number}, {number})
  IF({condition}, {number}, {number})
  NULLIF({number}, 0)
  kids * {number}
  POWER(kids, 2)
  SIGN({number})
  ROUND({number})
  FLOOR({number})
  CEIL({number})
  TRUNC({number})
  -{number}
  kids % 2
  kids // 2
  pts % 5
  pts // 10
  amount * amount
  LENGTH(dept)
  CAST({number} AS DOUBLE)
  CAST({condition} AS INTEGER)
  SQRT(ABS({number}))
  LN(pts + 1)
  EXTRACT(month FROM day)
  YEAR(day)
  DATE_DIFF('day', DATE '2024-01-01', day)
few
  0
  1
  5
  -7
  100
  2.5
comparison
  >=
  >
  <
  <=
  =
  <>
not
  {nothing}
  NOT{space}
truth
  TRUE
  NOT TRUE
  FALSE
  NOT FALSE
  NULL
  NOT NULL
  UNKNOWN
condition
  ({condition} AND {condition})
  ({condition} OR {condition})
  NOT ({condition})
  ({condition} AND NOT {condition})
  (({condition}) IS {truth})
  (({condition}) = ({condition}))
test
  {of_number}
  {of_number}
  {of_number}
  {of_number}
  {of_text}
  {of_code}
  {of_truth}
  {of_day}
  {of_list}
  {of_columns}
  {constant}
  {nullable} IS {not}NULL
  {number} {comparison} {few}
  ({number}) IS {not}NULL
  CASE WHEN {condition} THEN {condition} ELSE {condition} END
of_number
  amount {comparison} {amount_literal}
  temp {comparison} {temp_literal}
  kids {comparison} {kids_literal}
  pts {comparison} {pts_literal}
  amount {not}BETWEEN {amount_literal} AND {amount_literal}
  temp {not}BETWEEN {temp_literal} AND {temp_literal}
  kids {not}BETWEEN {kids_literal} AND {kids_literal}
  pts {not}BETWEEN {pts_literal} AND {pts_literal}
of_text
  dept = 'Santé'
  dept <> 'École'
  dept = 'O''Neil'
  dept IN ('10', 'zürich öst')
  dept NOT IN ('Santé', 'École')
  dept IN ('Santé', NULL)
  dept NOT IN ('Santé', NULL)
  UPPER(dept) = 'SANTÉ'
  LOWER(dept) LIKE 'é%'
  dept LIKE '%é%'
  dept SIMILAR TO '[0-9]+'
  dept > 'O'
  LENGTH(dept) > 5
of_code
  code = '007'
  code = '7'
  code <> 'NULL'
  code IN ('true', '7')
  code IS NULL
  code LIKE '%7'
  code >= '7'
  code = 'true'
  CAST(code AS VARCHAR) = '7'
of_truth
  vip
  NOT vip
  vip IS NULL
  vip = FALSE
  vip <> TRUE
  vip IS NOT TRUE
  vip IS NOT DISTINCT FROM NULL
  vip IS DISTINCT FROM TRUE
  COALESCE(vip, TRUE)
  vip = (kids > 1)
of_day
  day >= DATE '2024-01-01'
  day < '2023-12-01'
  day BETWEEN DATE '2023-12-01' AND DATE '2024-01-31'
  YEAR(day) = 2024
  MONTH(day) IN (2, 11)
  day > DATE '2024-02-10'
  DATE_TRUNC('month', day) = DATE '2024-02-01'
  QUARTER(day) = 1
  day + INTERVAL 1 MONTH > DATE '2024-02-15'
  day = DATE '2024-02-29'
  day <= DATE '2024-03-31'
  STRFTIME(day, '%Y-%m') = '2024-01'
  DATE_DIFF('month', DATE '2023-11-01', day) >= 2
of_list
  kids IN (1, 3)
  kids NOT IN (0, NULL)
  (kids, vip) = (1, TRUE)
  (kids, code) IN ((0, '7'), (2, 'true'))
of_columns
  amount > kids
  pts > kids
  amount > temp
  pts >= amount
  kids = pts
constant
  TRUE
  1 = 1
  NULL
  1 = 2
  NULL IS NULL
  kids = kids
  amount = amount
nullable
  amount
  temp
  dept
  vip
  day
  kids
level
  0
  0.1
  0.25
  0.5
  0.75
  0.9
  0.99
  1
  0.3333
filter
  {nothing}
  {nothing}
  {nothing}
  {space}FILTER (WHERE {condition})
aggregate
  COUNT(*)
  COUNT(*)
  COUNT(*)
  COUNT(*)
  COUNT(*){filter}
  COUNT(*){filter}
  COUNT({number}){filter}
  ⟨SUM({number}){filter}⟩
  ⟨SUM({number}){filter}⟩
  ⟨SUM(kids){filter}⟩
  ⟨SUM(CASE WHEN {condition} THEN 1 ELSE 0 END){filter}⟩
  AVG({number}){filter}
  AVG({number}){filter}
  AVG(kids){filter}
  AVG(CASE WHEN {condition} THEN 1.0 ELSE 0 END){filter}
  MEDIAN({number}){filter}
  MEDIAN(day){filter}
  QUANTILE_CONT({number}, {level}){filter}
  QUANTILE_DISC({number}, {level}){filter}
  PERCENTILE_CONT({level}) WITHIN GROUP (ORDER BY {number})
  PERCENTILE_CONT({level}) WITHIN GROUP (ORDER BY {number} DESC)
  PERCENTILE_DISC({level}) WITHIN GROUP (ORDER BY {number} DESC)
  STDDEV({number}){filter}
  STDDEV_POP({number}){filter}
  VARIANCE({number}){filter}
  VAR_POP({number}){filter}
  ‹SKEWNESS({number}){filter}›
  ‹KURTOSIS({number}){filter}›
  ‹CORR({number}, {number}){filter}›
  COVAR_POP({number}, {number}){filter}
  COVAR_SAMP({number}, {number}){filter}
  ‹REGR_SLOPE({number}, {number}){filter}›
  ‹REGR_INTERCEPT({number}, {number}){filter}›
  REGR_SXX({number}, {number}){filter}
  REGR_SXY({number}, {number}){filter}
  REGR_SYY({number}, {number}){filter}
  REGR_COUNT({number}, {number}){filter}
  REGR_AVGX({number}, {number}){filter}
  REGR_AVGY({number}, {number}){filter}
  ⟨COUNT_IF({condition}){filter}⟩
  BOOL_OR({condition}){filter}
  BOOL_AND({condition}){filter}
  COUNT(DISTINCT dept){filter}
  COUNT(DISTINCT kids){filter}
  COUNT(DISTINCT vip){filter}
  COUNT(DISTINCT kids % 2){filter}
  COUNT(dept){filter}
  COUNT(day){filter}
  COUNT(vip){filter}
  MODE(kids){filter}
output
  {aggregate}
  {aggregate}
  {aggregate}
  {derived}
  {derived}
derived
  ROUND({aggregate}, 0)
  ROUND({aggregate}, 2)
  100.0 * {aggregate} / COUNT(*)
  100.0 * {aggregate} / {aggregate}
  {aggregate} - {aggregate}
  COALESCE({aggregate}, 0)
  {aggregate} / NULLIF({aggregate}, 0)
  {aggregate} > {aggregate}
  CASE WHEN {aggregate} > {few} THEN 'hi' ELSE 'lo' END
  CASE WHEN {aggregate} > {aggregate} THEN 'hi' ELSE 'lo' END
  GREATEST({aggregate}, {aggregate})
  CAST({aggregate} AS BIGINT)
  ABS({aggregate})
  {aggregate} * 2 + 1
  FLOOR({aggregate} / 10)
  {aggregate} BETWEEN 0 AND 1000
  SQRT(ABS({aggregate}))
  ({aggregate}) IS NULL
  ROUND({aggregate} / {aggregate}, 3)
name
  dept
  code
  vip
  kids
key
  dept
  code
  vip
  kids
  «amount»
  «temp»
  «pts»
  «day»
  kids % 2
  kids > 1
  kids // 2
  FLOOR(kids / 2)
  NULLIF(kids, 2)
  COALESCE(kids, 9)
  GREATEST(kids, 1)
  CAST(kids AS VARCHAR)
  CASE kids WHEN 0 THEN 'none' WHEN 1 THEN 'one' END
  vip IS NULL
  vip AND kids > 0
  IF(vip, kids, 0)
  amount IS NULL
  CASE WHEN amount >= 0 THEN 'pos' WHEN amount < 0 THEN 'neg' END
  pts >= 10
  CASE WHEN pts < 10 THEN 'low' WHEN pts < 18 THEN 'mid' ELSE 'high' END
  UPPER(dept)
  LEFT(dept, 1)
  COALESCE(dept, 'none')
  dept || '-' || code
  LENGTH(code)
  code IN ('7', '007')
  YEAR(day)
  QUARTER(day)
  MONTH(day)
  DATE_TRUNC('month', day)
  STRFTIME(day, '%Y/%m')
  DAYNAME(DATE_TRUNC('month', day))
where
  {nothing}
  {space}WHERE {condition}
outputs
  {output} AS o0
  {output} AS o0
  {output} AS o0, {output} AS o1
  {output} AS o0, {output} AS o1, {output} AS o2
grouped
  {outs=outputs}{keys=one_key}SELECT {key} AS k0, {outs} FROM t{where} GROUP BY {one}
  {outs=outputs}{keys=two_keys}SELECT {key} AS k0, {key} AS k1, {outs} FROM t{where} GROUP BY {two}
  {outs=outputs}{keys=three_keys}SELECT {key} AS k0, {key} AS k1, {key} AS k2, {outs} FROM t{where} GROUP BY 1, 2, 3
one_key
  k0
two_keys
  k0, k1
three_keys
  k0, k1, k2
one
  1
  1
  1
  ROLLUP (1)
two
  1, 2
  1, 2
  1, 2
  1, 2
  ROLLUP (1, 2)
  CUBE (1, 2)
  GROUPING SETS ((1, 2), ())
having
  COUNT(*) > 100
  COUNT(*) >= 1
  SUM(kids) > 50
  AVG(pts) > 10
  COUNT(*) > 3000
kept_groups
  {nothing}
  {nothing}
  {space}HAVING {having}
restricted
  {grouped}{kept_groups}
of_groups
  MAX(o0)
  MIN(o0)
  MAX(o0) - MIN(o0)
  ⟨SUM(o0)⟩
  AVG(o0)
  MEDIAN(o0)
  STDDEV(o0)
  VAR_POP(o0)
  COUNT(o0)
  COUNT(*)
  COUNT(*) FILTER (WHERE o0 > 50)
  ⟨SUM(o0) FILTER (WHERE k0 IS NOT NULL)⟩
  COUNT(DISTINCT k0)
  MAX(k0)
  MIN(k0)
  ARG_MAX(k0, o0⌈ ORDER BY k0⌉)
  ARG_MIN(o0, k0⌈ ORDER BY o0⌉)
  ANY_VALUE(o0⌈ ORDER BY {keys}, o0⌉)
  QUANTILE_DISC(o0, 0.3)
  QUANTILE_CONT(o0, 0.8)
  BOOL_OR(o0 > 10)
  BOOL_AND(o0 > 1)
  STRING_AGG(DISTINCT k0, ',' ORDER BY k0)
  FIRST(o0 ORDER BY k0⌈, {keys}, o0⌉)
windowed
  {level_with} OVER ({peers})
  {level_with} OVER ({peers})
  ROW_NUMBER() OVER ({order})
  NTILE(2) OVER ({order})
  {framed} OVER ({order} ROWS BETWEEN {whole})
  ⟨SUM(o0) OVER ({peers})⟩
  ⟨SUM(o0) OVER ({order} ROWS BETWEEN {whole})⟩
  ⟨SUM(o0) OVER ()⟩
  COUNT(*) OVER ()
  MAX(o0) OVER ()
  AVG(o0) OVER (PARTITION BY k0)
  ⟨SUM(o0) OVER (ORDER BY k0 NULLS FIRST RANGE UNBOUNDED PRECEDING)⟩
  o0 - AVG(o0) OVER ()
  100 * o0 / SUM(o0) OVER ()
level_with
  AVG(o0)
  COUNT(*)
  COUNT(o0)
  MAX(o0)
  MIN(o0)
  RANK()
  DENSE_RANK()
  PERCENT_RANK()
  CUME_DIST()
counting
  LAG(o0) OVER ({order})
  LEAD(o0, 1, 0) OVER ({order})
  {framed} OVER ({order} ROWS BETWEEN {frame})
  {framed} OVER ({order} ROWS BETWEEN {frame})
  ⟨SUM(o0) OVER ({order} ROWS BETWEEN {frame})⟩
  FIRST_VALUE(o0) OVER ({order} ROWS BETWEEN {frame})
  LAST_VALUE(o0) OVER ({order} ROWS BETWEEN {frame})
  NTH_VALUE(o0, 2) OVER ({order} ROWS BETWEEN {frame})
framed
  AVG(o0)
  COUNT(*)
  COUNT(o0)
  MAX(o0)
  MIN(o0)
peers
  ORDER BY {keys}
  ORDER BY k0
  ORDER BY k0 DESC
  ORDER BY o0
  ORDER BY o0 DESC
  PARTITION BY k0 ORDER BY {keys}
  PARTITION BY k0 ORDER BY o0 DESC
order
  ORDER BY {keys}{broken}
  ORDER BY k0 DESC{broken}
  ORDER BY o0{broken}
  ORDER BY o0 DESC{broken}
  PARTITION BY k0 ORDER BY {keys}{broken}
  PARTITION BY k0 ORDER BY o0 DESC{broken}
whole
  UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
  UNBOUNDED PRECEDING AND CURRENT ROW
  CURRENT ROW AND UNBOUNDED FOLLOWING
frame
  {whole}
  1 PRECEDING AND CURRENT ROW
  2 PRECEDING AND 1 PRECEDING
  1 FOLLOWING AND 2 FOLLOWING
broken
  ⌈, {keys}, o0⌉
noisy
  0
  50
  (SELECT AVG(kids) FROM t)
  (SELECT COUNT(*) / 10 FROM t)
both
  UNION
  UNION ALL
  INTERSECT
  EXCEPT
join
  JOIN
  LEFT JOIN
  INNER JOIN
outer
  JOIN
  LEFT JOIN
  FULL JOIN
  RIGHT JOIN
kept
  s.pts < 18
  s.vip
  s.amount > 60
  s.kids > 0
correlated
  {nothing}
  {space}AND x.pts >= 10
  {space}AND x.vip
of_name
  SELECT {k} AS k, {aggregate} AS n FROM t{where} GROUP BY 1
all_of_name
  SELECT {k} AS k, {aggregate} AS n FROM t GROUP BY 1
simple_side
  SELECT {k} AS k, {simple} AS n FROM t{where} GROUP BY 1
counted_side
  SELECT {k} AS k, COUNT(*) AS n FROM t WHERE {condition} GROUP BY 1
by_name
  SELECT {name} AS k, {aggregate} AS o FROM t{where} GROUP BY k
of_two
  a.n + b.n
  a.n * b.n
  a.n > b.n
  COALESCE(a.n, b.n)
  a.n / NULLIF(b.n, 0)
  GREATEST(a.n, b.n)
  CASE WHEN a.n > b.n THEN 1 END
of_both
  a.n - b.n
  a.n + COALESCE(b.n, 0)
  b.n IS NULL
  a.n / NULLIF(b.n, 0)
simple
  COUNT(*)
  ⟨SUM(kids)⟩
  AVG(pts)
listed
  kids, amount, dept, vip, pts, day, code, temp
  *
direction
  {nothing}
  DESC
nulls
  {nothing}
  NULLS FIRST
  NULLS LAST
limit
  2
  3
  10
statement
  SELECT {outputs} FROM t{where}
  SELECT {outputs} FROM t{where}
  {grouped}
  {grouped}
  {grouped}
  {grouped}
  {grouped} HAVING {having}
  {g=restricted}SELECT {of_groups} AS z FROM ({g}) q
  {g=restricted}SELECT {of_groups} AS z FROM ({g}) q
  {g=restricted}SELECT k0, {of_groups} AS z, COUNT(*) AS c FROM ({g}) q GROUP BY k0
  {g=restricted}SELECT {keys}, o0, {windowed} AS w FROM ({g}) q
  {rows=grouped}SELECT {keys}, o0, {counting} AS w FROM ({rows}{kept_groups}) q
  {rows=grouped}SELECT {keys}, o0, {counting} AS w FROM ({rows}{kept_groups}) q
  {g=restricted}SELECT {keys}, o0 FROM ({g}) q WHERE o0 {comparison} {noisy}
  {g=restricted}SELECT DISTINCT k0 FROM ({g}) q
  {k=name}SELECT {k} AS k FROM t WHERE {condition} GROUP BY 1 {both} SELECT {k} AS k FROM t WHERE {condition} GROUP BY 1
  {k=name}SELECT s.{k} AS k, COUNT(*) AS n, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM t x WHERE x.{k} = s.{k}{correlated}) AS r FROM t s WHERE {kept} GROUP BY 1
  {k=name}{left=of_name}{right=all_of_name}WITH a AS ({left}), b AS ({right}) SELECT a.k, a.n, b.n AS m, {of_two} AS z FROM a {join} b USING (k)
  {k=key}{left=simple_side}{right=counted_side}SELECT a.k, a.n, b.n AS m, {of_both} AS d FROM ({left}) a {outer} ({right}) b ON a.k = b.k
  SELECT {output} AS o0, {aggregate} / (SELECT {simple} FROM t) AS s FROM t{where}
  SELECT 'a' AS w, {aggregate} AS v FROM t{where} UNION ALL SELECT 'b', {aggregate} FROM t WHERE {condition}
  SELECT {outputs} FROM (SELECT {listed} FROM t WHERE {condition}) s{where}
  SELECT {shown} AS e, COUNT(*) AS n FROM t{where} GROUP BY 1
  WITH b AS (SELECT *, {number} AS e, {condition} AS f FROM t), c AS (SELECT * FROM b WHERE f) SELECT {name} AS k, COUNT(*) AS n, AVG(e) AS a, ⟨SUM(e)⟩ AS s FROM b GROUP BY 1
  WITH b AS (SELECT *, {number} AS e, {condition} AS f FROM t), c AS (SELECT * FROM b WHERE f) SELECT {name} AS k, COUNT(*) AS n, AVG(e) AS a, ⟨SUM(e)⟩ AS s FROM c GROUP BY 1
  {rows=by_name}{rows} ORDER BY k {direction} {nulls} LIMIT {limit}
shown
  kids
  kids % 2
  CASE WHEN {condition} THEN kids ELSE {few} END
  kids * 2 - 1
  COALESCE(NULLIF(kids, 1), -7)
  POWER(kids, 2)
  LENGTH(dept)
  CAST({condition} AS INTEGER)
"""


def _read(text: str) -> dict[str, tuple[str, ...]]:
    """Symbols at the margin, their productions indented."""
    rules: dict[str, list[str]] = {}
    symbol = ""
    for line in text.strip("\n").split("\n"):
        if line.startswith(" "):
            rules[symbol].append(line.strip())
        else:
            symbol = line
            rules[symbol] = []
    return {name: tuple(productions) for name, productions in rules.items()}


RULES = {
    **_read(_TEXT),
    **{f"{column}_literal": tuple(listed.split()) for column, listed in _LITERALS.items()},
    "nothing": ("",),
    "space": (" ",),
}
_REFERENCE = re.compile(r"\{(\w+)(?:=(\w+))?\}")
_OURS = str.maketrans("", "", "«»‹›⟨⟩")
_THEIRS = {"«": "", "»": "_bin", "‹": "NULLIF(", "›": ", 'nan'::DOUBLE)", "⟨": "COALESCE(", "⟩": ", 0)"}
_TIE = re.compile("⌈(.*?)⌉")
_COLUMN = re.compile(r"\w+(?=,|$)")


@dataclass(frozen=True)
class Statement:
    """A random statement; `outputs` are those of each group, if it groups the table and does nothing else."""

    marked: str
    outputs: str = ""
    listed: tuple[str, ...] = ()
    """Statements of the groups that this one counts one by one or looks up, those without records too."""

    @property
    def ours(self) -> str:
        return _TIE.sub("", self.marked).translate(_OURS)

    def theirs(self, *, descending: bool = False) -> str:
        """DuckDB's reading, where ties go to the first or to the last in order."""
        return _duckdb(self.marked, descending)

    @property
    def of_no_records(self) -> str:
        """What DuckDB computes of a group without records, empty if this is no such statement."""
        return _duckdb(f"SELECT {self.outputs} FROM t WHERE FALSE", False) if self.outputs else ""


def _duckdb(marked: str, descending: bool) -> str:
    text = _TIE.sub(lambda tie: _COLUMN.sub(r"\g<0> DESC NULLS FIRST", tie[1]) if descending else tie[1], marked)
    for mark, meaning in _THEIRS.items():
        text = text.replace(mark, meaning)
    return text


class Grammar:
    """Statements of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._named: dict[str, str] = {}
        self._used: set[str] = set()

    def statement(self) -> Statement:
        self._named, self._used = {}, set()
        production = self._random.choice(RULES["statement"])
        text = self._filled(production, None)
        outputs = self._named["outs"] if production == "{grouped}" else ""
        return Statement(text, outputs, tuple(self._named[name] for name in LISTED if name in self._named))

    def _expanded(self, symbol: str, depth: int | None) -> str:
        if symbol == DISTINCT:
            chosen = self._random.choice([one for one in RULES[symbol] if one not in self._used])
            self._used.add(chosen)
            return chosen
        if symbol not in NESTED:
            return self._filled(self._random.choice(RULES[symbol]), depth)
        depth = self._random.choice(DEPTHS) if depth is None else depth
        ends = depth == 0 or self._random.random() < ENDS_EARLY
        return self._filled(self._random.choice(RULES[NESTED[symbol] if ends else symbol]), max(depth - 1, 0))

    def _filled(self, production: str, depth: int | None) -> str:
        def text_of(reference: re.Match[str]) -> str:
            name, symbol = reference.groups()
            if symbol is not None:
                self._named[name] = self._expanded(symbol, depth)
                return ""
            return self._named[name] if name in self._named else self._expanded(name, depth)

        return _REFERENCE.sub(text_of, production)
