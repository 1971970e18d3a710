"""Statements that are refused, each with a piece of the line that says why and what can be asked instead."""

from __future__ import annotations

_TEXT = """
INSERT INTO t VALUES (1) => INSERT would change data; ask a SELECT
UPDATE t SET age = 1 => UPDATE would change data
DELETE FROM t => DELETE would change data
DROP TABLE t => DROP would change the schema
CREATE TABLE x AS SELECT COUNT(*) FROM t => CREATE would change the schema
BEGIN => BEGIN concerns transactions
PRAGMA x => PRAGMA would change settings
SHOW TABLES => SHOW describes the table; print the domain
EXPLAIN SELECT COUNT(*) FROM t => call cost(text, error=...)
VALUES (1) => VALUES lists constants
PIVOT t ON sex USING COUNT(*) => PIVOT reshapes rows
 => the statement is empty
hello world => a statement cannot begin with "hello"
SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t => the text holds 2 statements; ask one at a time
SELECT COUNT(* FROM t => line 1, column 19 near "FROM": expecting )
SELECT COUNT(*) FROM t WHERE => something is missing there
SELECT 'open FROM t => a quote or comment may be open
SELECT * FROM t => SELECT * would show rows; ask COUNT(*)
SELECT t.* FROM t => t.* stands for whole records
SELECT age FROM t => age is a raw column; add GROUP BY age
SELECT age, COUNT(*) FROM t => age is a raw column
SELECT age + 1, COUNT(*) FROM t GROUP BY age => age + 1 is computed per record
SELECT UPPER(region), COUNT(*) FROM t GROUP BY 1 => UPPER(region) cannot be answered here; group by columns
SELECT 1 FROM t => the statement has no aggregate; add COUNT(*)
SELECT sex FROM t GROUP BY sex => the statement has no aggregate
SELECT COUNT(*) => names no table; add FROM
SELECT COUNT(*) FROM t JOIN u ON t.a = u.a => joins another table; only one table is protected
SELECT COUNT(*) FROM t, u => joins another table
SELECT COUNT(*) FROM t NATURAL JOIN u => joins another table
SELECT COUNT(*) FROM t, LATERAL (SELECT 1) => joins another table
SELECT COUNT(*) FROM read_csv('x.csv') => is not the protected table; name the table itself
SELECT COUNT(*) FROM other.t => a table of another schema is out of reach
SELECT COUNT(*) FROM t TABLESAMPLE 10% => a sample of rows cannot be drawn
SELECT COUNT(*) FROM (VALUES (1)) x => is not the protected table
SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) => GROUP BY belongs in the outer SELECT
SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM t) => computes a column
SELECT COUNT(*) FROM (SELECT * FROM t LIMIT 10) => LIMIT belongs in the outer SELECT
SELECT COUNT(*) FROM (SELECT * FROM t ORDER BY age) => ORDER BY belongs in the outer SELECT
SELECT COUNT(*) FROM (SELECT DISTINCT sex FROM t) => SELECT DISTINCT shows which values occur
SELECT COUNT(*) FROM (SELECT age + 1 AS b FROM t) => computes a column; a subquery or CTE may only rename and filter
SELECT COUNT(*) FROM (SELECT age AS x, sex AS x FROM t) => names two columns "x"
SELECT COUNT(*) FROM (SELECT sex FROM t) WHERE age >= 45 => unknown column "age"
SELECT COUNT(*) FROM t AS x(a, b, c, d, e, f, g, h) => 8 names for 7 columns
WITH RECURSIVE a AS (SELECT * FROM t) SELECT COUNT(*) FROM a => WITH RECURSIVE walks through records
WITH a AS (SELECT * FROM t WHERE smoker) SELECT COUNT(*) FROM aa => unknown table "aa"; the table is called t
SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t => UNION of several SELECTs is not possible
SELECT COUNT(*) FROM t EXCEPT SELECT 1 => EXCEPT of several SELECTs is not possible
SELECT COUNT(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) => UNION in FROM is not possible
SELECT DISTINCT sex FROM t => SELECT DISTINCT shows which values occur; COUNT(*) ... GROUP BY
SELECT MIN(age) FROM t => MIN(age) depends on single records; COUNT(*) ... GROUP BY the column
SELECT MAX(age) FROM t => MAX(age) depends on single records
SELECT MEDIAN(age) FROM t => MEDIAN(age) depends on single records
SELECT MODE(sex) FROM t => MODE(sex) depends on single records
SELECT QUANTILE_CONT(age, 0.5) FROM t => depends on single records
SELECT STDDEV(age) FROM t => STDDEV(age) is not linear in the records
SELECT VAR_POP(age) FROM t => VAR_POP(age) is not linear
SELECT CORR(age, income) FROM t => CORR(age, income) is not linear
SELECT COUNT(DISTINCT sex) FROM t => DISTINCT inside an aggregate depends on single records; COUNT(*) ... GROUP BY
SELECT SUM(DISTINCT age) FROM t => DISTINCT inside an aggregate
SELECT APPROX_COUNT_DISTINCT(age) FROM t => counts distinct values
SELECT STRING_AGG(region, ',') FROM t => would list values of single records
SELECT ARRAY_AGG(age) FROM t => would list values of single records
SELECT BOOL_AND(smoker) FROM t => COUNT(*) FILTER (WHERE ...) counts where the condition holds
SELECT ANY_VALUE(age) FROM t => depends on single records
SELECT ARG_MAX(age, income) FROM t => depends on single records
SELECT PRODUCT(age) FROM t => unknown function "PRODUCT"; use COUNT, SUM or AVG
SELECT COUNT(*) OVER () FROM t => window functions rank records
SELECT ROW_NUMBER() OVER (ORDER BY age) FROM t => window functions rank records
SELECT COUNT(*) FROM t QUALIFY ROW_NUMBER() OVER () = 1 => QUALIFY needs window functions
SELECT COUNT(*) FROM t WINDOW w AS (PARTITION BY sex) => WINDOW functions rank records
SELECT COUNT(age, sex) FROM t => counts several columns at once
SELECT COUNT(* EXCLUDE (age)) FROM t => EXCLUDE is not supported
SELECT SUM(*) FROM t => only COUNT takes a star
SELECT SUM(age * income) FROM t => age * income is not linear in the columns
SELECT SUM(age % 2) FROM t => age % 2 cannot be answered here; sum columns
SELECT SUM(age >= 45) FROM t => is a condition, not a number; use COUNT(*) FILTER
SELECT SUM(sex) FROM t => the mean or sum of "sex" needs numbers
SELECT SUM(visit) FROM t => the mean or sum of "visit" needs numbers
SELECT SUM(CAST(age AS VARCHAR)) FROM t => converts a column
SELECT SUM(AVG(age)) FROM t => is an aggregate inside an aggregate
SELECT AVG(NULL) FROM t => has no value for any record
SELECT SUM(age / 0) FROM t => age / 0 divides by zero
SELECT COUNT(*) / 0 FROM t => COUNT(*) / 0 divides by zero
SELECT COUNT(*) / (1 - 1) FROM t => divides by zero
SELECT SUM(1e308 * 10 * age) FROM t => 1e308 * 10 is not a finite number
SELECT COUNT(*) % 2 FROM t => COUNT(*) % 2 cannot be answered here
SELECT SQRT(COUNT(*)) FROM t => SQRT(COUNT(*)) cannot be answered here; use COUNT, SUM and AVG
SELECT CASE WHEN COUNT(*) > 5 THEN 1 ELSE 0 END FROM t => CASE over aggregates is not supported
SELECT COUNT(*) > 5 FROM t => COUNT(*) > 5 is a condition, not a number
SELECT 'x', COUNT(*) FROM t => 'x' is not a number
SELECT CAST(COUNT(*) AS VARCHAR) FROM t => is not a numeric type; cast to DOUBLE
SELECT ROUND(AVG(age), 99) FROM t => decimals 99 is not a whole number from 0 to 15
SELECT (SELECT COUNT(*) FROM t) FROM t => a subquery would join; ask it on its own
SELECT COUNT(*) FROM t WHERE agee >= 45 => unknown column "agee"; did you mean age
SELECT COUNT(*) FROM t WHERE u.age >= 45 => unknown table "u" in u.age; here it is called t
SELECT COUNT(*) FROM t WHERE age > 30 => age > 30 cuts the bin 25-34; nearest edges are 25 and 35
SELECT COUNT(*) FROM t WHERE age = 30 => cuts the bin 25-34; nearest edges are 25 and 35
SELECT COUNT(*) FROM t WHERE income <= 20 => cuts the bin [20, 50); nearest edges are 20 and 50; use income < 20
SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND 40 => age >= 20 cuts the bin 17-24; nearest edges are 17 and 25
SELECT COUNT(*) FILTER (WHERE age > 30) FROM t => age > 30 cuts the bin 25-34
SELECT COUNT(*) FROM t WHERE visit >= DATE '2024-02-15' => nearest edges are 2024-01-01 and 2024-04-01
SELECT COUNT(*) FROM t WHERE visit >= DATE '2024-13-15' => "2024-13-15" is not an ISO date
SELECT COUNT(*) FROM t WHERE visit >= CURRENT_DATE => it changes with each run
SELECT COUNT(*) FROM t WHERE region = 'nrth' => not one of the 4 declared values; did you mean north
SELECT COUNT(*) FROM t WHERE region IN ('north', 'nowhere') => "nowhere": not one of the 4 declared values
SELECT COUNT(*) FROM t WHERE region > 'north' => values declared as text have no order
SELECT COUNT(*) FROM t WHERE age = 'old' => expected a finite number
SELECT COUNT(*) FROM t WHERE age = income => age = income compares two columns
SELECT COUNT(*) FROM t WHERE age + 5 >= 45 => age + 5 computes with a column; move the arithmetic
SELECT COUNT(*) FROM t WHERE UPPER(region) = 'NORTH' => is a function of a column
SELECT COUNT(*) FROM t WHERE CAST(age AS DOUBLE) >= 45 => converts a column
SELECT COUNT(*) FROM t WHERE region = NULL => region = NULL is never true; use region IS NULL
SELECT COUNT(*) FROM t WHERE region <> NULL => use region IS NOT NULL
SELECT COUNT(*) FROM t WHERE region IN ('north', NULL) => lists NULL, which never matches
SELECT COUNT(*) FROM t WHERE age IN (SELECT 45) => holds a subquery; list the values
SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1) => a subquery would join
SELECT COUNT(*) FROM t WHERE age >= (SELECT AVG(age) FROM t) => a subquery would join
SELECT COUNT(*) FROM t WHERE COUNT(*) > 5 => is an aggregate, and WHERE looks at one record; use HAVING
SELECT COUNT(*) FROM t WHERE age => age is a column, not a condition
SELECT COUNT(*) FROM t WHERE 5 => 5 is not a condition
SELECT COUNT(*) FROM t WHERE age >= ? => parameters have no value here; write the value itself
SELECT COUNT(*) FROM t WHERE age >= :limit => parameters have no value here
SELECT COUNT(*) FROM t WHERE region SIMILAR TO 'n.*' => regular expressions are not supported; use LIKE or IN
SELECT COUNT(*) FROM t WHERE age LIKE '4%' => LIKE needs a column of text, and age has none
SELECT COUNT(*) FROM t WHERE region LIKE sex => needs a pattern
SELECT COUNT(*) FROM t WHERE region LIKE '%a%b%c%d%e%f%g%h%i%' => more than eight %
SELECT COUNT(*) FROM t WHERE (age, sex) = (1, 2) => lists of columns cannot be compared
SELECT COUNT(*) FROM t WHERE CASE WHEN smoker THEN TRUE END => CASE in a condition is not supported
SELECT COUNT(*) FROM t WHERE 1 = 'a' => compares values of different kinds
SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex) => in several ways at once
SELECT sex, COUNT(*) FROM t GROUP BY GROUPING SETS ((sex), ()) => in several ways at once
SELECT sex, COUNT(*) FROM t GROUP BY GROUPING SETS ((sex), DATE ()) => in several ways at once
SELECT COUNT(*) FROM t GROUP BY DATE () => DATE cannot be answered here
SELECT sex, COUNT(*) FROM t GROUP BY 3 => GROUP BY 3 is not a position from 1 to 2
SELECT sex, COUNT(*) FROM t GROUP BY 2 => GROUP BY names an aggregate
SELECT COUNT(*) FROM t GROUP BY 'x' => GROUP BY 'x' is constant
SELECT sex, COUNT(*) FROM t GROUP BY age => sex is a raw column; add GROUP BY sex
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING age >= 45 => looks at age, which is not grouped; use WHERE
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING MAX(age) > 3 => MAX(age) depends on single records
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*) > NULL => COUNT(*) > NULL is never true
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*) > sex => sex is compared with an aggregate
SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY age => age is a raw column
SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY 5 => ORDER BY 5 is not a position from 1 to 2
SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT -1 => LIMIT -1 is not a whole number
SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT 10% => LIMIT with PERCENT or TIES is not supported
SELECT sex, COUNT(*) FROM t GROUP BY sex OFFSET 'a' => OFFSET 'a' is not a whole number
SELECT CASE WHEN smoker THEN age ELSE 2 END, COUNT(*) FROM t GROUP BY 1 => in a grouped CASE is not a constant
SELECT CASE WHEN smoker THEN 'a' ELSE 2 END, COUNT(*) FROM t GROUP BY 1 => mixes text and numbers
SELECT COUNT(*) INTO x FROM t => SELECT INTO would write a table
SELECT COUNT(*) FROM t FOR UPDATE => leave FOR UPDATE out
SELECT COUNT(*) FROM t AT (VERSION => 3) => time travel is not possible
SELECT COUNT(*) FROM t WHERE age >= 99e9999 => is not a finite number
"""

REFUSED = [tuple(line.rsplit(" => ", 1)) for line in _TEXT.strip("\n").splitlines()]
