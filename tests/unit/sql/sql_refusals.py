"""Statements that are refused, each with a piece of the line that says why and what can be asked instead."""

from __future__ import annotations

_TEXT = """
INSERT INTO t VALUES (1) => INSERT would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
UPDATE t SET age = 1 => UPDATE would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
DELETE FROM t => DELETE would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
DROP TABLE t => DROP would change the schema; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
CREATE TABLE x AS SELECT COUNT(*) FROM t => CREATE would change the schema; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
BEGIN => BEGIN concerns transactions, and there are none; ask a SELECT with COUNT(*), SUM(x), AVG(x) or
PRAGMA x => PRAGMA would change settings; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
 => the statement is empty; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
hello world => a statement cannot begin with "hello"; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another
SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t => the text holds 2 statements; ask one at a time
SELECT COUNT(* FROM t => the SQL cannot be read at line 1, column 19 near "FROM": expecting )
SELECT COUNT(*) FROM t WHERE => the SQL cannot be read at line 1, column 28 near "WHERE": something is missing there
SELECT 'open FROM t => the SQL cannot be read: a quote or comment may be open; close it
SELECT * FROM t => SELECT * would show rows; ask COUNT(*), or SELECT * FROM t_synthetic for synthetic ones
SELECT t.* FROM t => SELECT * would show rows; ask COUNT(*), or SELECT * FROM t_synthetic for synthetic ones
SELECT age FROM t => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT age, COUNT(*) FROM t => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT 1 FROM t => 1 is computed per record; group by it, or put it inside COUNT, SUM or AVG
SELECT COUNT(*) => the statement names no table; add FROM and the table's name
SELECT COUNT(*) FROM t JOIN u ON t.a = u.a => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM t, u => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM t NATURAL JOIN u => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM t, LATERAL (SELECT 1) => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM read_csv('x.csv') => READ_CSV('x.csv') is not the protected table; name the table itself after FROM
SELECT COUNT(*) FROM other.t => a table of another schema is out of reach; use the table's own name
SELECT COUNT(*) FROM t TABLESAMPLE 10% => a sample of rows cannot be drawn; the answer covers all records, or use synthesize(rows)
SELECT COUNT(*) FROM (SELECT * FROM t LIMIT 10) => LIMIT in a subquery picks single records; LIMIT belongs in the outer SELECT
SELECT COUNT(*) FROM (SELECT age AS x, sex AS x FROM t) => a subquery names two columns "x"; give them different names
SELECT COUNT(*) FROM (SELECT sex FROM t) WHERE age >= 45 => unknown column "age"; known: sex
SELECT COUNT(*) FROM t AS x(a, b, c, d, e, f, g, h) => 8 names for 7 columns; list at most as many
WITH a AS (SELECT * FROM t WHERE smoker) SELECT COUNT(*) FROM aa => unknown table "aa"; did you mean a
SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t => UNION leaves out equal rows, and noisy numbers are never equal; use UNION ALL
SELECT COUNT(*) FROM t EXCEPT SELECT 1 => EXCEPT compares rows, and noisy numbers are never equal; select public columns, such as GROUP BY keys
SELECT COUNT(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) => SELECT * would show rows; ask COUNT(*), or SELECT * FROM t_synthetic for synthetic ones
SELECT SUM(DISTINCT age) FROM t => DISTINCT inside SUM or AVG depends on single records; COUNT(*) ... GROUP BY the column
SELECT APPROX_COUNT_DISTINCT(age) FROM t => APPROX_COUNT_DISTINCT(age) depends on values within the bins of age; COUNT(*) ... GROUP BY the
SELECT STRING_AGG(region, ',') FROM t => STRING_AGG(region, ',') would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT COUNT(*) FROM generate_series(1, 10000) => GENERATE_SERIES(1, 10000) has more than 1000 values; list fewer
SELECT i FROM generate_series(1, 2, 0) AS g(i) => GENERATE_SERIES(1, 2, 0) needs whole numbers, or dates and an INTERVAL of days
SELECT i FROM generate_series('a', 'b') AS g(i) => GENERATE_SERIES('a', 'b') needs whole numbers, or dates and an INTERVAL of days
SELECT i FROM generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 hour') AS g(i) => GENERATE_SERIES(
SELECT BOOL_OR(region) FROM t => region is a column, not a condition; compare it with a value
SELECT SKEWNESS(region) FROM t => region has no numbers; count its values instead
SELECT BOOL_OR(DISTINCT smoker) FROM t => DISTINCT changes nothing in BOOL_OR(
SELECT ARRAY_AGG(age) FROM t => ARRAY_AGG(age) would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT ANY_VALUE(age) FROM t => ANY_VALUE(age) depends on single records; COUNT(*) ... GROUP BY the column shows its whole
SELECT ARG_MAX(age, income) FROM t => ARG_MAX(age, income) depends on single records; COUNT(*) ... GROUP BY the column shows its whole
SELECT PRODUCT(age) FROM t => unknown function "PRODUCT"; use COUNT, SUM, AVG, MEDIAN, STDDEV, CORR or COUNT(*) ... GROUP BY the
SELECT COUNT(*) OVER () FROM t => COUNT(*) OVER () ranks records; group first, and rank the groups
SELECT ROW_NUMBER() OVER (ORDER BY age) FROM t => ROW_NUMBER() OVER (ORDER BY age) ranks records; group first, and rank the groups
SELECT COUNT(age, sex) FROM t => COUNT(age, sex) counts several columns at once; use COUNT(*) FILTER (WHERE ...)
SELECT COUNT(* EXCLUDE (age)) FROM t => EXCLUDE is not supported; name the columns to use
SELECT SUM(*) FROM t => only COUNT takes a star; name a column
SELECT SUM(sex) FROM t => the mean or sum of "sex" needs numbers; count its values instead
SELECT SUM(visit) FROM t => the mean or sum of "visit" needs numbers; count its values instead
SELECT SUM(CAST(age AS VARCHAR)) FROM t => CAST(age AS TEXT) is not a number; use COUNT, or a column of numbers
SELECT SUM(AVG(age)) FROM t => AVG(age) is an aggregate inside an aggregate; use one at a time
SELECT AVG(NULL) FROM t => AVG(NULL) has no value for any record; name a column
SELECT SUM(age / 0) FROM t => age / 0 divides by zero; use another divisor
SELECT COUNT(*) / 0 FROM t => COUNT(*) / 0 divides by zero; use another divisor
SELECT COUNT(*) / (1 - 1) FROM t => COUNT(*) / (1 - 1) divides by zero; use another divisor
SELECT SUM(1e308 * 10 * age) FROM t => 1e308 * 10 is not a finite number; write a smaller one
SELECT CAST(COUNT(*) AS VARCHAR) FROM t => CAST(COUNT(*) AS TEXT) writes a noisy number as text; show the number itself
SELECT ROUND(AVG(age), 99) FROM t => decimals 99 is not a whole number from -15 to 15; write one
SELECT (SELECT COUNT(*) FROM t) FROM t => (SELECT COUNT(*) FROM t) is computed per record; group by it, or put it inside COUNT, SUM or AVG
SELECT COUNT(*) FROM t WHERE agee >= 45 => unknown column "agee"; did you mean age
SELECT COUNT(*) FROM t WHERE u.age >= 45 => unknown table "u" in u.age; here it is called t
SELECT COUNT(*) FROM t WHERE visit >= DATE '2024-13-15' => "2024-13-15" is not an ISO date; write it as DATE '2024-12-31'
SELECT COUNT(*) FROM t WHERE region = 'nrth' => region == "nrth": not one of the 4 declared values; did you mean north
SELECT COUNT(*) FROM t WHERE region IN ('north', 'nowhere') => region in "nowhere": not one of the 4 declared values; known: north, south, east, north-east
SELECT COUNT(*) FROM t WHERE age = 'old' => age == "old": expected a finite number
SELECT COUNT(*) FROM t WHERE region = NULL => region = NULL is never true; use region IS NULL
SELECT COUNT(*) FROM t WHERE region <> NULL => region <> NULL is never true; use region IS NOT NULL
SELECT COUNT(*) FROM t WHERE region IN ('north', NULL) => region IN ('north', NULL) lists NULL, which never matches; add OR ... IS NULL
SELECT COUNT(*) FROM t WHERE age IN (SELECT 45) => a column compared by IN is in bins of several values; use public columns of single values, such as
SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1) => the statement names no table; add FROM and the table's name
SELECT COUNT(*) FROM t WHERE COUNT(*) > 5 => COUNT(*) is an aggregate, and WHERE is evaluated for each record; use HAVING
SELECT COUNT(*) FROM t WHERE age => age is a column, not a condition; compare it with a value
SELECT COUNT(*) FROM t WHERE 5 => 5 is not a condition; compare it with a value
SELECT COUNT(*) FROM t WHERE age >= ? => ?: parameters have no value here; write the value itself
SELECT COUNT(*) FROM t WHERE age >= :limit => $limit: parameters have no value here; write the value itself
SELECT COUNT(*) FROM t WHERE age LIKE '4%' => LIKE needs a column of text, and age has none; use =, IN or BETWEEN
SELECT COUNT(*) FROM t WHERE region LIKE sex => region LIKE sex needs a pattern; write a text such as 'A%'
SELECT COUNT(*) FROM t WHERE (age, sex) = (1, 2) => sex == 2: not one of the 2 declared values; known: Female, Male
SELECT COUNT(*) FROM t WHERE (age, sex) < (30, 'Male') => (age, sex): lists of columns cannot be compared; compare them one by one with AND
SELECT COUNT(*) FROM t WHERE (age, sex) IN ((30, 'Male'), (30, 'Male', 1)) => compares lists of different lengths; list as many values in each
SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(region, '(n') => REGEXP_MATCHES(region, '(n') is no regular expression of RE2; use LIKE or IN
SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(age, '3') => regular expressions need text; use =, IN or BETWEEN
SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(region, sex) => needs a pattern, and no option but 'i'; write a text such as '^A'
SELECT COUNT(*) FROM t WHERE children = 'two' => children == "two": expected a finite number
SELECT COUNT(*) FROM t WHERE 1 = 'a' => "a" is not a number; use numbers with numbers
SELECT sex, COUNT(*) FROM t GROUP BY GROUPING SETS ((sex), DATE ()) => DATE needs an argument; write DATE '2024-12-31', or DATE(column)
SELECT COUNT(*) FROM t GROUP BY DATE () => DATE needs an argument; write DATE '2024-12-31', or DATE(column)
SELECT sex, COUNT(*) FROM t GROUP BY 3 => GROUP BY 3 is not a position from 1 to 2; use a column's name
SELECT sex, COUNT(*) FROM t GROUP BY 2 => GROUP BY names an aggregate; group by a column, and use HAVING for aggregates
SELECT sex, COUNT(*) FROM t GROUP BY age => sex is a raw column; add GROUP BY sex, or use COUNT(sex), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING age >= 45 => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*) > sex => COUNT(*) > sex compares values of different kinds; compare like with like
SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY age => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY 5 => ORDER BY 5 is not a position from 1 to 2; use a column's name
SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT -1 => LIMIT -1 is not a whole number from 0 to 2147483648; write one
SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT 10% => LIMIT with PERCENT or TIES is not supported; use a number
SELECT sex, COUNT(*) FROM t GROUP BY sex OFFSET 'a' => OFFSET 'a' is not a whole number from 0 to 2147483648; write one
SELECT CASE WHEN smoker THEN age ELSE 2 END, COUNT(*) FROM t GROUP BY 1 => GROUP BY CASE WHEN smoker THEN age ELSE 2 END divides the bin 17-24 of age; group by the column, or
SELECT CASE WHEN smoker THEN 'a' ELSE 2 END, COUNT(*) FROM t GROUP BY 1 => CASE WHEN smoker THEN 'a' ELSE 2 END mixes text and numbers; use one kind of label
SELECT COUNT(*) INTO x FROM t => SELECT INTO would write a table; leave INTO out
SELECT COUNT(*) FROM t FOR UPDATE => locks are not needed; leave FOR UPDATE out
SELECT COUNT(*) FROM t AT (VERSION => 3) => time travel is not possible; the table is read once
SELECT COUNT(*) FROM t WHERE age >= 99e9999 => "99e9999" is not a finite number; write a smaller one
SELECT cuont(*) FROM t => unknown function "cuont"; did you mean COUNT or CONCAT
SELECT AVERAGE(age) FROM t => unknown function "AVERAGE"; did you mean AVG
SELECT SUMM(children) FROM t => unknown function "SUMM"; did you mean SUM
SELECT foo(age) FROM t WHERE sex = 'Male' => unknown function "foo"; did you mean FLOOR
SELECT COUNT(*) FROM t WHERE foo(age) > 3 => unknown function "foo"; did you mean FLOOR
SELECT COUNT(*) FROM t WHERE UPPER(region) = 'NROTH' => UPPER(region) = "NROTH": no declared value gives it; did you mean NORTH or SOUTH
SELECT COUNT(*) FROM t WHERE UPPER(region) = 5 => UPPER(region) = 5 compares values of different kinds; compare like with like
SELECT COUNT(*) FROM t WHERE region + 1 > 2 => region + 1 computes with text; use numbers
SELECT COUNT(*) FROM t WHERE sex - 1 = 0 => sex - 1 computes with text; use numbers
SELECT COUNT(*) FROM t WHERE LENGTH(region) = 'five' => "five" is not a number; use numbers with numbers
SELECT COUNT(*) FROM t WHERE visit > 5 => visit > 5: expected a date such as "2024-12-31"
SELECT COUNT(*) FROM t WHERE visit = 'yesterday' => visit == "yesterday": expected a date such as "2024-12-31"
SELECT COUNT(*) FROM t WHERE EXTRACT(YEAR FROM age) = 2024 => EXTRACT(YEAR FROM age) needs a date; use a column of dates
SELECT COUNT(*) FROM t WHERE EXTRACT(FORTNIGHT FROM visit) = 1 => "FORTNIGHT" is not a unit of time; use year, quarter, month, week or day
SELECT DATE_TRUNC('month', visit), COUNT(*) FROM t GROUP BY 1 => GROUP BY DATE_TRUNC('MONTH', visit) divides the bin 2024-01-01 to 2024-03-31 of visit; use DATE_TRUNC('QUARTER', visit)
SELECT EXTRACT(MONTH FROM visit) AS m, COUNT(*) FROM t GROUP BY m => GROUP BY EXTRACT(MONTH FROM visit) divides the bin 2024-01-01 to 2024-03-31 of visit; group by the
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM t GROUP BY decade => GROUP BY FLOOR(age / 10) * 10 divides the bin 17-24 of age; group by the column, or at the edges of
SELECT ROUND(income) AS i, COUNT(*) FROM t GROUP BY i => GROUP BY ROUND(income) divides the bin [0, 10) of income; group by the column, or at the edges of
SELECT age > 30, COUNT(*) FROM t GROUP BY 1 => age > 30 cuts the bin 25-34; nearest edges are 25 and 35
SELECT CASE WHEN age > 30 THEN 'a' ELSE 'b' END AS k, COUNT(*) FROM t GROUP BY k => GROUP BY: age > 30 cuts the bin 25-34; nearest edges are 25 and 35
SELECT age + income, COUNT(*) FROM t GROUP BY 1 => GROUP BY age + income divides the bin 17-24 of age and the bin [0, 10) of income; group by the
SELECT DAYNAME(visit), COUNT(*) FROM t GROUP BY 1 => GROUP BY DAYNAME(visit) divides the bin 2024-01-01 to 2024-03-31 of visit; group by the column, or
SELECT COUNT(*) FROM t GROUP BY COUNT(*) => GROUP BY names an aggregate; group by a column, and use HAVING for aggregates
SELECT COUNT(*) FROM t GROUP BY RANK() OVER (ORDER BY age) => GROUP BY names a window function; use it in an outer SELECT
SELECT STDDEV(region) FROM t => region has no numbers; count its values instead
SELECT MEDIAN(region) FROM t => MEDIAN(region) needs numbers or dates; use MODE, or COUNT(*) ... GROUP BY the column
SELECT MEDIAN(age + income) FROM t => MEDIAN(age + income) needs one column; name one, or AVG, which takes any number
SELECT QUANTILE_CONT(age, 1.5) FROM t => QUANTILE_CONT(age, 1.5) needs a number between 0 and 1; write QUANTILE_CONT(column, 0.5)
SELECT QUANTILE_CONT(age, sex) FROM t => QUANTILE_CONT(age, sex) needs a constant between 0 and 1; write QUANTILE_CONT(column, 0.5)
SELECT QUANTILE_CONT(age) FROM t => QUANTILE_CONT(age) needs a constant between 0 and 1; write QUANTILE_CONT(column, 0.5)
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, sex) FROM t => QUANTILE_CONT(age, 0.5 ORDER BY age, sex) needs one column to order by; write WITHIN GROUP (ORDER
SELECT CORR(age) FROM t => the SQL cannot be read at line 1, column 16 near ")": something is missing there
SELECT CORR(age, sex) FROM t => sex has no numbers; count its values instead
SELECT MODE(income) FROM t => MODE(income) depends on values within the bins of income; COUNT(*) ... GROUP BY the column shows
SELECT COUNT(DISTINCT income) FROM t => COUNT(DISTINCT income) depends on values within the bins of income; COUNT(*) ... GROUP BY the
SELECT COUNT(DISTINCT (sex, region)) FROM t => COUNT(DISTINCT (sex, region)) counts combinations; SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM
SELECT MEDIAN(age) FROM t WHERE age > 30 => age > 30 cuts the bin 25-34; nearest edges are 25 and 35
SELECT STDDEV(income) FROM t WHERE income < 33 => income < 33 cuts the bin [20, 50); nearest edges are 20 and 50
SELECT CORR(age, income) FROM t WHERE age <> 30 => age != 30 cuts the bin 25-34; nearest edges are 25 and 35; use >= and < with edges
SELECT COUNT(DISTINCT region) FROM t WHERE age = 30 => age == 30 cuts the bin 25-34; nearest edges are 25 and 35; use >= and < with edges
SELECT HISTOGRAM(age) FROM t => unknown function "HISTOGRAM"; use columns, constants and functions of them
SELECT LIST(age) FROM t => ARRAY_AGG(age) would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT FIRST(age) FROM t => FIRST(age) depends on single records; COUNT(*) ... GROUP BY the column shows its whole distribution
SELECT LAST(region) FROM t => LAST(region) depends on single records; COUNT(*) ... GROUP BY the column shows its whole
SELECT ANY_VALUE(region) FROM t => ANY_VALUE(region) depends on single records; COUNT(*) ... GROUP BY the column shows its whole
SELECT ARG_MIN(region, age) FROM t => ARG_MIN(region, age) depends on single records; COUNT(*) ... GROUP BY the column shows its whole
SELECT MIN(age, 3) FROM t => MIN(age, 3) lists several records; use MIN or MAX of the column
SELECT ENTROPY(sex) FROM t => unknown function "ENTROPY"; use COUNT, SUM, AVG, MEDIAN, STDDEV, CORR or COUNT(*) ... GROUP BY the
SELECT MAD(age) FROM t => unknown function "MAD"; did you mean MOD or MAX
SELECT SUM(region) FROM t => the mean or sum of "region" needs numbers; count its values instead
SELECT AVG(visit) FROM t => the mean or sum of "visit" needs numbers; count its values instead
SELECT SUM(visit - DATE '2024-01-01' || 'x') FROM t => visit - CAST('2024-01-01' AS DATE) || 'x' is not a number; use COUNT, or a column of numbers
SELECT SUM(1 / (age - 20)) FROM t => 1 / (age - 20) may be NULL within the bin 17-24 of age; leave it out with WHERE, at the edges of bins
SELECT SUM(LN(income)) FROM t => LN(income) may be NULL within the bin [0, 10) of income; leave it out with WHERE, at the edges of bins
SELECT SUM(age // 0) FROM t => age // 0 divides by zero; use another divisor
SELECT SUM(age % 0) FROM t => age % 0 divides by zero; use another divisor
SELECT LENGTH(COUNT(*)) FROM t => LENGTH(COUNT(*)): LENGTH needs known values, not noisy ones; use COUNT, SUM, AVG and other
SELECT UPPER(COUNT(*)) FROM t => UPPER(COUNT(*)): UPPER needs known values, not noisy ones; use COUNT, SUM, AVG and other
SELECT 'n: ' || COUNT(*) FROM t => 'n: ' || COUNT(*): || needs known values, not noisy ones; use COUNT, SUM, AVG and other
SELECT COUNT(*) || '' FROM t => COUNT(*) || '': || needs known values, not noisy ones; use COUNT, SUM, AVG and other aggregates,
SELECT COUNT(*) + 'x' FROM t => "x" is not a number; use numbers with numbers
SELECT COUNT(*) = 'many' FROM t => "many" is not a number; use numbers with numbers
SELECT CASE WHEN COUNT(*) > 5 THEN 1 ELSE 'x' END FROM t => CASE WHEN COUNT(*) > 5 THEN 1 ELSE 'x' END mixes text and numbers; use one kind of value
SELECT COALESCE(COUNT(*), 'none') FROM t => COALESCE(COUNT(*), 'none') mixes text and numbers; use one kind of value
SELECT LOG(1, COUNT(*)) FROM t => LOG(1, COUNT(*)) needs a constant base above 0, other than 1; use LN or LOG10
SELECT ROUND(AVG(age), COUNT(*)) FROM t => decimals COUNT(*) is not a constant; write the value itself
SELECT NTILE(0) OVER (ORDER BY COUNT(*)) FROM t GROUP BY sex => NTILE needs a number of buckets above 0; write NTILE(4)
SELECT SUM(COUNT(*)) OVER w FROM t GROUP BY sex => unknown window "w"; define it with WINDOW
SELECT SUM(COUNT(*)) OVER (PARTITION BY COUNT(*)) FROM t GROUP BY sex => PARTITION BY COUNT(*) is noisy, and rows are compared by it; use public columns, such as those of
SELECT SUM(COUNT(*)) OVER (ORDER BY age) FROM t GROUP BY sex => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT SUM(COUNT(*)) OVER (ORDER BY sex RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t GROUP BY sex => RANGE frames with an offset are not supported; use ROWS BETWEEN
SELECT LAST_VALUE(COUNT(*) IGNORE NULLS) OVER (ORDER BY sex) FROM t GROUP BY sex => LAST_VALUE(COUNT(*) IGNORE NULLS) skips NULLs, which is not supported; leave IGNORE NULLS out
SELECT sex, RANK() OVER (ORDER BY age) FROM t => RANK() OVER (ORDER BY age) ranks records; group first, and rank the groups
SELECT ROW_NUMBER() OVER () AS r, age FROM t QUALIFY r = 1 => QUALIFY ranks records; group first, and rank the groups
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY age) AS r FROM t) WHERE r < 10 => ROW_NUMBER() OVER (ORDER BY age) ranks records; group first, and rank the groups
SELECT sex FROM t HAVING sex = 'Male' => sex is a raw column; add GROUP BY sex, or use COUNT(sex), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING RANK() OVER (ORDER BY sex) = 1 => HAVING comes before window functions; use QUALIFY
SELECT age, COUNT(*) FROM t GROUP BY age HAVING age > 30 => HAVING: age > 30 cuts the bin 25-34; use the edges of bins
WITH g AS (SELECT age, COUNT(*) AS n FROM t GROUP BY age) SELECT n FROM g WHERE age = 30 => WHERE: age = 30 cuts the bin 25-34; use the edges of bins
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT m FROM g => unknown column "m"; known: sex, n
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT h.n FROM g => unknown table "h"; here it is called g
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT n, COUNT(*) FROM g GROUP BY n => GROUP BY n is noisy, and rows are compared by it; use public columns, such as those of GROUP BY
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT sex, COUNT(*) FROM g => sex is neither grouped nor aggregated; add GROUP BY sex, or use MAX
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT COUNT(DISTINCT n) FROM g => COUNT(DISTINCT n) looks at single values of a noisy column; use a public column
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT DISTINCT n FROM g => DISTINCT n is noisy, and rows are compared by it; use public columns, such as those of GROUP BY
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT n FROM g a JOIN g b USING (sex) => the column "n" is in several tables; write the table's name before it
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT COUNT(*) FROM t JOIN g USING (sex) => JOIN g USING (sex) joins records with rows of a result; group first, and join the groups
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT COUNT(*) FROM g, t => the statement joins another table; only one table is protected: join before it is read
WITH g AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING COUNT(*) > 9) SELECT COUNT(*) FROM (SELECT DISTINCT sex FROM t) a LEFT JOIN g USING (sex) => LEFT JOIN of rows that are chosen by noisy values; use JOIN, or leave HAVING and LIMIT out
SELECT COUNT(*) FROM t a JOIN t b ON a.age = b.age => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM t WHERE sex = (SELECT sex FROM t GROUP BY sex) => a subquery used as a value may have several rows; aggregate it: MAX, SUM or AVG
SELECT COUNT(*) FROM t WHERE age > (SELECT age, sex FROM t GROUP BY 1, 2) => a subquery used as a value has several columns; select one
SELECT COUNT(*) FROM t WHERE age > (SELECT age FROM t) => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM t) => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT COUNT(*) FROM t WHERE sex IN (SELECT sex, COUNT(*) FROM t GROUP BY sex) => a subquery of IN has 2 columns instead of 1; select one
SELECT COUNT(*) FROM t WHERE children IN (SELECT COUNT(*) FROM t GROUP BY sex) => the column of a subquery of IN is noisy; use public columns of single values, such as categories of
SELECT MEDIAN(age) FROM t WHERE children > (SELECT AVG(children) FROM t) => MEDIAN(age) among records compared with a noisy value; write the value itself
SELECT sex, COUNT(*) FROM t GROUP BY sex UNION ALL SELECT COUNT(*) FROM t => the SELECTs of a UNION have different numbers of columns; list as many in each
SELECT sex FROM t GROUP BY sex UNION ALL SELECT COUNT(*) FROM t => the column sex holds text in one SELECT and numbers in another; use one kind
SELECT sex FROM t UNION ALL SELECT region FROM t => sex is a raw column; add GROUP BY sex, or use COUNT(sex), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex INTERSECT SELECT sex, COUNT(*) FROM t GROUP BY sex => INTERSECT compares rows, and noisy numbers are never equal; select public columns, such as GROUP BY keys
SELECT sex FROM t GROUP BY sex UNION BY NAME SELECT sex FROM t GROUP BY sex => UNION BY NAME is not supported; list the columns in the same order
SELECT sex, GROUPING(age), COUNT(*) FROM t GROUP BY ROLLUP(sex) => GROUPING(age) uses a column that is not in GROUP BY; name a column of GROUP BY
SELECT age, COUNT(*) FROM t GROUP BY ROLLUP(sex) => age is a raw column; add GROUP BY age, or use MAX
SELECT sex, COUNT(*) FROM t GROUP BY CUBE(age, sex, region, income, smoker, children, visit) => 128 ways of grouping; at most 64; ask one GROUP BY at a time
SELECT DISTINCT ON (sex) sex, age FROM t => DISTINCT ON picks single rows; use GROUP BY and MAX
SELECT DISTINCT age, * FROM t => SELECT * would show rows; ask COUNT(*), or synthesize(rows) for synthetic ones
PIVOT t ON age USING COUNT(*) GROUP BY sex => PIVOT ON age, whose bins hold many values; list them: ON CASE ..., or GROUP BY it
PIVOT t ON nobody USING COUNT(*) GROUP BY sex => unknown column "nobody"; known: age, sex, region, income, smoker, children, visit
PIVOT t ON sex USING MEDIAN(region) GROUP BY children => MEDIAN(region) needs numbers or dates; use MODE, or COUNT(*) ... GROUP BY the column
UNPIVOT t ON age, children INTO NAME n VALUE v => UNPIVOT turns columns into rows; use UNION ALL of one SELECT for each
SUMMARIZE t => SUMMARIZE looks at single records; use DESCRIBE, and COUNT(*) ... GROUP BY a column
DESCRIBE a b c => DESCRIBE needs the name of a table; write DESCRIBE and its name
SHOW DATABASES => SHOW DATABASES is not known here; use SHOW TABLES or SHOW COLUMNS FROM the table
EXPLAIN ANALYZE SELECT COUNT(*) FROM t => EXPLAIN ANALYZE would run a plan; use EXPLAIN, which asks nothing
EXPLAIN => the statement is empty; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
EXPLAIN DELETE FROM t => DELETE would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
TRUNCATE t => TRUNCATE would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
GRANT SELECT ON t TO me => GRANT would change the schema; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
COPY t TO 'x.csv' => COPY would change data; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
ATTACH 'x.db' => ATTACH would change settings; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
CALL pragma_version() => CALL would change settings; ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate
SELECT * FROM t LIMIT 10 => SELECT * would show rows; ask COUNT(*), or SELECT * FROM t_synthetic for synthetic ones
SELECT * FROM t_synthetics => SELECT * would show rows; ask COUNT(*), or SELECT * FROM t_synthetics_synthetic for synthetic ones
SELECT age, sex FROM t LIMIT 5 => age is a raw column; add GROUP BY age, or use COUNT(age), SUM or AVG
SELECT COUNT(*) FROM t, LATERAL (SELECT 1) x => the statement joins another table; only one table is protected: join before it is read
SELECT COUNT(*) FROM information_schema.tables => a table of another schema is out of reach; use the table's own name
SELECT COUNT(*) FROM 'data.parquet' => "data.parquet" is not the protected table; name the table itself after FROM
SELECT * FROM duckdb_tables() => DUCKDB_TABLES() is not the protected table; name the table itself after FROM
SELECT COUNT(*) FROM t WHERE RANDOM() < 0.5 => RANDOM(): it changes with each run; write a value
SELECT COUNT(*) FROM t WHERE region LIKE ANY ('n%', 's%') => LIKE ANY and LIKE ALL list patterns; join several LIKE with OR or AND
SELECT COUNT(*) FROM t WHERE region LIKE 'n!%' ESCAPE '!!' => region LIKE 'n!%' ESCAPE '!!' needs one character after ESCAPE; write ESCAPE '!'
SELECT COUNT(*) FROM t WHERE REPEAT(sex, 1000000) = 'x' => a text repeated to 6000000 characters; at most 10000; use fewer
SELECT COUNT(*) FROM t WHERE LPAD(sex, 100000, 'x') = 'x' => a text padded to 100000 characters; at most 10000; use fewer
SELECT COUNT(*) FROM t WHERE AGE(DATE '2024-12-31', visit) > INTERVAL 1 YEAR => AGE(CAST('2024-12-31' AS DATE), visit) is an interval of time; use EXTRACT(YEAR FROM AGE(DATE
SELECT COUNT(*) FROM t WHERE visit + sex > 1 => visit + sex computes with times; use DATE_DIFF, or a date plus or minus days or an INTERVAL
SELECT COUNT(*) FROM t WHERE visit > INTERVAL 'x' => INTERVAL 'x' is not an interval of time; write INTERVAL 3 MONTH
SELECT COUNT(*) FROM t WHERE DATE_DIFF('week', visit, DATE '2024-01-01') > 1 => a difference in week is not supported; use year, quarter, month or day
SELECT COUNT(*) FROM t WHERE CAST(region AS INT) = 1 => 'north' is not a number; use TRY_CAST, which gives NULL there
SELECT COUNT(*) FROM t WHERE CAST(children AS DATE) = DATE '2024-01-01' => CAST(children AS DATE) converts a number to a date; use a column of dates
SELECT COUNT(*) FROM t WHERE CAST(children AS BLOB) = 1 => CAST(children AS BLOB) is not a known type; cast to DOUBLE, BIGINT, VARCHAR or DATE
SELECT COUNT(*) FROM t WHERE MAKE_DATE(2024, 13, 1) < visit => MAKE_DATE(2024, 13, 1) is not a date; write a day of the calendar
SELECT COUNT(*) AS n, m + 1 AS n2, n2 AS m FROM t => "n2" is defined in terms of itself; give the column another name
SELECT n FROM (SELECT COUNT(*) AS n FROM t) AS x(a, b) => 2 names for 1 columns; list at most as many
SELECT COUNT(*) FROM t ORDER BY nobody => unknown column "nobody"; known: age, sex, region, income, smoker, children, visit
SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY region => region is a raw column; add GROUP BY region, or use COUNT(region), SUM or AVG
SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT 'x' => LIMIT 'x' is not a whole number from 0 to 2147483648; write one
VALUES (1, 2), (3) => the rows of VALUES have different lengths; list as many values in each
VALUES (1), ('a') => the column col0 holds text in one SELECT and numbers in another; use one kind
SELECT => the statement selects nothing; list what to count
SELECT COUNT(*) FROM t WHERE sex = "f" => unknown column "f"; known: age, sex, region, income, smoker, children, visit; text needs single quotes: 'f'
SELECT COUNT(*) FROM t WHERE sex = female => visit; text needs single quotes: 'female'
SELECT COUNT(*) FROM t WHERE "f" = sex => visit; text needs single quotes: 'f'
SELECT COUNT(*) FROM t WHERE sex IN ('m', "f") => visit; text needs single quotes: 'f'
SELECT AVG(CASE WHEN sex = "it's" THEN 1 ELSE 0 END) FROM t => visit; text needs single quotes: 'it''s'
SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING sex = "f" => text needs single quotes: 'f'
SELECT COUNT(*) FORM t => invalid expression / unexpected token; did you mean FROM, not "FORM"
SELECT COUNT(*) FROM t WHRE age >= 45 => invalid expression / unexpected token; did you mean WHERE, not "WHRE"
SELECT sex, COUNT(*) FROM t GRUOP BY sex => invalid expression / unexpected token; did you mean GROUP, not "GRUOP"
"""  # noqa: E501

REFUSED = [tuple(line.rsplit(" => ", 1)) for line in _TEXT.strip("\n").splitlines()]
