# ruff: noqa: E501, SIM905 - statements stand one to a line, as an analyst would type them
"""Statements as analysts type them: functions, moments, windows, sets of groups and queries of queries."""

from __future__ import annotations

KEYS = """UPPER(region)
LOWER(region)
TRIM(region)
SUBSTR(region, 1, 3)
SUBSTRING(region FROM 2 FOR 2)
SUBSTR(region, -3, 2)
SUBSTR(region, 0, 3)
LEFT(region, 2)
LEFT(region, -1)
RIGHT(region, 3)
RIGHT(region, -2)
LENGTH(region)
REPLACE(region, 'north', 'n')
REVERSE(region)
region || '!'
region || sex
CONCAT(region, '-', sex)
CONCAT_WS('/', sex, region)
STRPOS(region, 'o')
POSITION('o' IN region)
STARTS_WITH(region, 'n')
CONTAINS(region, 'ast')
SPLIT_PART(region, '-', 1)
SPLIT_PART(region, '-', -1)
LPAD(sex, 8, '*')
RPAD(sex, 3, '*')
REPEAT(sex, 2)
COALESCE(region, 'none')
IFNULL(region, sex)
NULLIF(region, 'north')
CASE WHEN region LIKE 'north%' THEN 'N' ELSE region END
CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 END
CASE WHEN children = 0 THEN 'none' WHEN children < 3 THEN 'some' ELSE 'many' END
IF(smoker, 'yes', 'no')
IF(smoker, children, -1)
IF(smoker, children, 0)
CASE WHEN smoker THEN region ELSE 'north' END
CASE WHEN smoker THEN region END
CASE WHEN children > 1 THEN region WHEN smoker THEN UPPER(region) ELSE 'SOUTH' END
CASE WHEN smoker THEN children > 2 ELSE children > 1 END
UPPER(sex) || LOWER(sex)
children + 1
children * 2 - 1
children % 2
MOD(children, 3)
children // 2
-children // 2
children / 2
-children
ABS(children - 2)
children ** 2
POWER(2, children)
SQRT(children)
LN(children + 1)
EXP(children)
LOG10(children + 1)
SIGN(children - 1)
FLOOR(children / 2)
CEIL(children / 2)
TRUNC(children / 2)
ROUND(children / 3, 2)
children > 1
children IN (1, 2)
children BETWEEN 1 AND 2
GREATEST(children, 2)
LEAST(children, 2)
COALESCE(NULLIF(children, 2), 9)
CAST(children AS VARCHAR)
CAST(children AS DOUBLE)
children::TEXT || 'x'
TRY_CAST(region AS INT)
(children + 1) * LENGTH(sex)
LENGTH(region) + children
smoker IS NULL
NOT smoker
smoker AND sex = 'Male'
smoker OR children = 0
region IS DISTINCT FROM 'north'
region LIKE 'n%'
region ILIKE 'NORTH%'
region NOT LIKE 'n%'
region >= 'north'
region < 'north'
EXTRACT(YEAR FROM visit)
EXTRACT(QUARTER FROM visit)
YEAR(visit)
QUARTER(visit)
DATE_TRUNC('quarter', visit)
DATE_TRUNC('year', visit)
DATE_PART('quarter', visit)
STRFTIME(visit, '%Y')
age >= 45
FLOOR(income / 100)
income >= 20""".split("\n")

TESTS = """UPPER(region) = 'NORTH'
LOWER(region) IN ('north', 'east')
SUBSTR(region, 1, 1) = 'n'
LENGTH(region) > 4
region || sex = 'northMale'
COALESCE(region, 'north') = 'north'
region >= 'north'
region < 'o' OR smoker
children + 1 >= 3
children * 2 < 5
children % 2 = 0
children <> 2 AND -children < -1
ABS(children - 2) = 1
children // 2 = 1
SQRT(children) > 1
age * 2 >= 90
2 * age - 10 >= 80
age / 5 >= 9
-age <= -45
age >= 90 / 2
age >= SQRT(2025)
CAST(age AS DOUBLE) >= 45
age BETWEEN 25 AND 34 + 0
CASE WHEN smoker THEN children ELSE 0 END > 1
CASE WHEN age >= 45 THEN 'old' ELSE 'young' END = 'old'
IF(sex = 'Male', children, 3) = 3
(smoker IS NULL) = (region IS NULL)
smoker = (sex = 'Male')
children = LENGTH(sex) - 3
EXTRACT(YEAR FROM visit) = 2024
EXTRACT(QUARTER FROM visit) = 2
DATE_TRUNC('quarter', visit) = DATE '2024-04-01'
visit >= DATE '2024-01-01' + INTERVAL 3 MONTH
visit < DATE '2024-08-01' - INTERVAL '1 month'
YEAR(visit) * 10 + QUARTER(visit) >= 20242
DATE_DIFF('quarter', DATE '2024-01-01', visit) >= 1
visit - DATE '2024-01-01' >= 91
STARTS_WITH(region, 'north')
CONTAINS(region, 'st') AND NOT smoker
NOT (UPPER(region) = 'NORTH')
UPPER(region) <> 'NORTH'
UPPER(region) NOT LIKE 'NORTH%'
LOWER(sex) LIKE '%male'
region IS NOT DISTINCT FROM 'north'
COALESCE(smoker, FALSE)
COALESCE(smoker, sex = 'Male')
NOT COALESCE(smoker, TRUE)
(children = 1) IS NOT TRUE
(UPPER(region) = 'NORTH') IS NOT TRUE
(UPPER(region) = 'NORTH') IS FALSE
smoker IN (TRUE)
children IN (1, 1 + 1)
children NOT IN (LENGTH(sex), 2)
region IN (sex, 'north')
GREATEST(children, 2) = 2
income >= 10 + 10
income * 2 >= 40
income + 0 < 20
income >= 20.0
income IS NULL OR children + 1 = 1
NULLIF(children, 2) IS NULL
children > (SELECT COUNT(*) FROM t) - 3999
TRUE
NOT FALSE AND children = 1
1 < 2
'a' = 'a'
LOWER('A') = 'a' AND sex = 'Male'""".split("\n")

NUMBERS = """SUM(children * children)
SUM(children * LENGTH(sex))
AVG(children * children)
SUM(SQRT(children))
SUM(children % 2)
AVG(ABS(children - 2))
SUM(LENGTH(region))
AVG(LENGTH(COALESCE(region, '')))
SUM(children > 1)
AVG(CASE WHEN LENGTH(region) > 4 THEN 1 ELSE 0 END)
SUM(CAST(children AS DOUBLE))
SUM(GREATEST(children, 2))
SUM(POWER(children, 3))
AVG(EXP(children))
SUM(children * (children + 1) / 2)
COUNT(UPPER(region))
COUNT(NULLIF(children, 2))
COUNT(CASE WHEN UPPER(region) = 'NORTH' THEN 1 END)
COUNT_IF(LENGTH(region) = 5)
COUNT(*) FILTER (WHERE UPPER(region) = 'NORTH')
COUNT(DISTINCT region)
COUNT(DISTINCT children)
COUNT(DISTINCT UPPER(sex))
COUNT(DISTINCT children % 2)
APPROX_COUNT_DISTINCT(sex)
MEDIAN(children)
MEDIAN(age)
MEDIAN(income)
QUANTILE_CONT(children, 0.25)
QUANTILE_DISC(children, 0.75)
QUANTILE(age, 0.9)
PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age)
PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY income)
PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age DESC)
MEDIAN(age) FILTER (WHERE sex = 'Male')
MEDIAN(children * 2)
MEDIAN(-children)
STDDEV(children)
STDDEV_POP(children)
STDDEV_SAMP(age)
VARIANCE(age)
VAR_POP(income)
VAR_SAMP(children)
STDDEV(income) FILTER (WHERE smoker)
VARIANCE(children * 2 + 1)
COVAR_POP(children, age)
COVAR_SAMP(income, age)
CORR(income, age)
CORR(children, children)
CORR(age, -age)
REGR_SLOPE(income, age)
REGR_INTERCEPT(income, age)
REGR_R2(income, age)
REGR_COUNT(income, age)
REGR_AVGX(income, age)
REGR_AVGY(income, age)
REGR_SXX(income, age)
REGR_SYY(income, age)
REGR_SXY(income, age)
MODE(sex)
MODE(region)
MODE(children)
MODE() WITHIN GROUP (ORDER BY children)
SUM(age * income)
AVG(age * income)
SUM(income * income)
SUM(age - income)
AVG(age / 10)
SUM(income) / SUM(age)
ROUND(AVG(income), 1)
SQRT(COUNT(*))
LN(COUNT(*)) + EXP(1)
COUNT(*) // 7
COUNT(*) % 7
POWER(COUNT(*), 2)
COUNT(*) > 100
CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END
CASE WHEN AVG(age) > 40 THEN COUNT(*) ELSE 0 END
GREATEST(COUNT(*), SUM(children), 3)
LEAST(AVG(age), AVG(income))
COALESCE(AVG(income), 0) + 1
NULLIF(COUNT(*), 0)
ABS(COUNT(*) - 5000)
CAST(AVG(age) AS INT)
CAST(AVG(age) AS DECIMAL(10,1))
TRUNC(AVG(age), 1)
SIGN(AVG(income) - 30)
COUNT(*) BETWEEN 10 AND 100000
COUNT(*) IN (1, 4000)
NOT (COUNT(*) > 5)
AVG(income) IS NULL
'x', COUNT(*)
COUNT(*) * 1.0 / (SELECT COUNT(*) FROM t)
(SELECT AVG(age) FROM t WHERE sex = 'Male') - AVG(age)
COUNT(*), COUNT(*) AS n, n * 2 AS m, m + n
SUM(children) FILTER (WHERE children > 1 AND UPPER(sex) = 'MALE')""".split("\n")

BY_GROUP = """MEDIAN(age)
STDDEV(age)
CORR(age, income)
COUNT(DISTINCT region)
MODE(children)
VAR_POP(children)
QUANTILE_CONT(income, 0.3)
REGR_SLOPE(income, children)
SUM(age * children)
SUM(LENGTH(region))
AVG(SQRT(children))
COUNT(*) * 100.0 / SUM(COUNT(*)) OVER ()
RANK() OVER (ORDER BY COUNT(*) DESC)
SUM(SUM(children)) OVER ()
COUNT(*) FILTER (WHERE smoker) * 1.0 / COUNT(*)
CASE WHEN COUNT(*) > 1000 THEN 'many' ELSE 'few' END
SQRT(AVG(age))
AVG(income) FILTER (WHERE LENGTH(region) = 5)
(SELECT COUNT(*) FROM t) - COUNT(*)""".split("\n")

RELATIONS = """SELECT region, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM t GROUP BY region
SELECT region, sex, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY region) FROM t GROUP BY region, sex
SELECT region, COUNT(*), RANK() OVER (ORDER BY COUNT(*) DESC) FROM t GROUP BY region
SELECT region, DENSE_RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY region
SELECT region, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS r FROM t GROUP BY region
SELECT age, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY age) FROM t GROUP BY age
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t GROUP BY age
SELECT age, AVG(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t GROUP BY age
SELECT age, MAX(COUNT(*)) OVER (ORDER BY age DESC) FROM t GROUP BY age
SELECT age, LAG(COUNT(*)) OVER (ORDER BY age), LEAD(COUNT(*), 2, 0) OVER (ORDER BY age) FROM t GROUP BY age
SELECT age, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age) FROM t GROUP BY age
SELECT age, FIRST_VALUE(COUNT(*)) OVER (ORDER BY age), NTH_VALUE(COUNT(*), 2) OVER (ORDER BY age) FROM t GROUP BY age
SELECT age, LAST_VALUE(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t GROUP BY age
SELECT age, NTILE(3) OVER (ORDER BY age), PERCENT_RANK() OVER (ORDER BY age), CUME_DIST() OVER (ORDER BY age) FROM t GROUP BY age
SELECT region, MAX(COUNT(*)) OVER (), MIN(COUNT(*)) OVER (), COUNT(*) OVER () FROM t GROUP BY region
SELECT region, SUM(COUNT(*)) FILTER (WHERE region LIKE 'n%') OVER () FROM t GROUP BY region
SELECT region, sex, RANK() OVER (PARTITION BY sex ORDER BY AVG(income) DESC) FROM t GROUP BY region, sex
SELECT region, sex, COUNT(*) FROM t GROUP BY region, sex QUALIFY ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) = 1
SELECT region, sex, COUNT(*) AS n FROM t GROUP BY region, sex QUALIFY n = MAX(n) OVER (PARTITION BY region)
SELECT age, SUM(n) OVER w, AVG(n) OVER w FROM (SELECT age, COUNT(*) AS n FROM t GROUP BY age) WINDOW w AS (ORDER BY age)
SELECT region, COUNT(*) FROM t GROUP BY ROLLUP(region)
SELECT region, sex, COUNT(*), AVG(income) FROM t GROUP BY ROLLUP(region, sex)
SELECT region, sex, COUNT(*) FROM t GROUP BY CUBE(region, sex)
SELECT region, sex, COUNT(*), GROUPING(region), GROUPING(sex) FROM t GROUP BY GROUPING SETS ((region), (sex), ())
SELECT GROUPING(region, sex), COUNT(*) FROM t GROUP BY CUBE(region, sex)
SELECT sex, smoker, SUM(children) FROM t GROUP BY sex, ROLLUP(smoker)
SELECT UPPER(sex) AS s, COUNT(*) FROM t GROUP BY ROLLUP(s)
SELECT COALESCE(region, 'all') AS r, COUNT(*) FROM t WHERE region IS NOT NULL GROUP BY ROLLUP(region)
SELECT region, COUNT(*) FROM t GROUP BY ROLLUP(region) HAVING COUNT(*) > 500
SELECT region, sex, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER () FROM t GROUP BY ROLLUP(region, sex)
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT MAX(n), MIN(n), AVG(n), SUM(n), COUNT(*) FROM g
WITH g AS (SELECT region, sex, COUNT(*) AS n FROM t GROUP BY region, sex) SELECT region, SUM(n), MAX(n) FROM g GROUP BY region
WITH g AS (SELECT region, sex, COUNT(*) AS n FROM t GROUP BY region, sex) SELECT region, SUM(n) FROM g GROUP BY ROLLUP(region)
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT region, n FROM g WHERE n > 500
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT COUNT(*), SUM(n) FROM g WHERE n > 500
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT * FROM g
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT region, n * 1.0 / (SELECT SUM(n) FROM g) AS share FROM g
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region), m AS (SELECT MAX(n) AS top FROM g) SELECT region FROM g, m WHERE n = top
WITH a AS (SELECT region, COUNT(*) AS n FROM t WHERE smoker GROUP BY region), b AS (SELECT region, COUNT(*) AS m FROM t GROUP BY region) SELECT a.region, n * 1.0 / m FROM a JOIN b USING (region)
WITH a AS (SELECT region, COUNT(*) AS n FROM t WHERE smoker GROUP BY region), b AS (SELECT region, COUNT(*) AS m FROM t GROUP BY region) SELECT b.region, n, m FROM b LEFT JOIN a ON a.region = b.region
WITH a AS (SELECT children, COUNT(*) AS n FROM t WHERE children < 3 GROUP BY children), b AS (SELECT children, COUNT(*) AS m FROM t WHERE children > 0 GROUP BY children) SELECT children, n, m FROM a FULL JOIN b USING (children)
WITH a AS (SELECT region AS r FROM t), b AS (SELECT r FROM a WHERE r LIKE 'n%') SELECT r, COUNT(*) FROM b GROUP BY r
SELECT STDDEV(n), MEDIAN(n), VAR_POP(n), QUANTILE_DISC(n, 0.3) FROM (SELECT region, sex, COUNT(*) AS n FROM t GROUP BY ALL)
SELECT CORR(n, a), REGR_SLOPE(n, a) FROM (SELECT region, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY region)
SELECT ARG_MAX(region, n), ARG_MIN(region, n) FROM (SELECT region, COUNT(*) AS n FROM t GROUP BY region)
SELECT sex, ARG_MAX(region, n), MAX(n) FROM (SELECT sex, region, COUNT(*) AS n FROM t GROUP BY ALL) GROUP BY sex
SELECT COUNT(*) FROM (SELECT DISTINCT region FROM t)
SELECT COUNT(*) FROM (SELECT DISTINCT region, sex FROM t)
SELECT COUNT(DISTINCT sex) FROM (SELECT sex, region FROM t GROUP BY ALL)
SELECT COUNT(*) FROM (SELECT region FROM t GROUP BY region HAVING COUNT(*) > 500)
SELECT sex, COUNT(*) FROM (SELECT sex, region, COUNT(*) AS n FROM t GROUP BY sex, region) WHERE n > 100 GROUP BY sex
SELECT sex, COUNT(*) FROM t GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM t
SELECT 'a' AS k, COUNT(*) FROM t WHERE smoker UNION ALL SELECT 'b', COUNT(*) FROM t WHERE NOT smoker UNION ALL SELECT NULL, AVG(age) FROM t
SELECT k, SUM(n) FROM (SELECT sex AS k, COUNT(*) AS n FROM t GROUP BY sex UNION ALL SELECT region, COUNT(*) FROM t GROUP BY region) GROUP BY k
SELECT sex FROM t GROUP BY sex UNION SELECT sex FROM t GROUP BY sex
SELECT DISTINCT sex FROM t
SELECT DISTINCT region, sex FROM t
SELECT DISTINCT UPPER(region) FROM t
SELECT DISTINCT children > 1 FROM t
SELECT sex FROM t GROUP BY sex
SELECT DISTINCT sex FROM (SELECT sex, region, COUNT(*) AS n FROM t GROUP BY ALL)
SELECT COUNT(*) FROM t WHERE region IN (SELECT region FROM t GROUP BY region HAVING COUNT(*) > 500)
SELECT COUNT(*) FROM t WHERE region NOT IN (SELECT region FROM t WHERE region IS NOT NULL GROUP BY region HAVING COUNT(*) > 500)
SELECT sex, COUNT(*), AVG(children), SUM(children) FROM t WHERE region IN (SELECT region FROM t GROUP BY region ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY sex
SELECT COUNT(*) FROM t WHERE children > (SELECT AVG(children) FROM t)
SELECT sex, COUNT(*) FROM t WHERE children >= (SELECT AVG(children) FROM t) AND smoker GROUP BY sex
SELECT children, COUNT(*) FROM t WHERE children IN (SELECT children FROM t WHERE smoker GROUP BY children HAVING COUNT(*) > 100) GROUP BY children
SELECT y, COUNT(*) FROM (SELECT children * 2 AS y, sex FROM t WHERE smoker) GROUP BY y
SELECT AVG(y), SUM(y) FROM (SELECT children * 2 + 1 AS y FROM t)
WITH a AS (SELECT UPPER(region) AS r, children + 1 AS c FROM t), b AS (SELECT r || '!' AS q, c * 2 AS d FROM a WHERE c > 1) SELECT q, SUM(d), COUNT(*) FROM b GROUP BY q
SELECT UPPER(r), COUNT(*) FROM (SELECT region AS r FROM t) GROUP BY 1
SELECT LENGTH(u), COUNT(*) FROM (SELECT UPPER(region) AS u FROM t) GROUP BY LENGTH(u)
SELECT u, LENGTH(u) + 1, COUNT(*) FROM (SELECT UPPER(region) AS u FROM t) GROUP BY u
SELECT region, UPPER(region), LENGTH(region), COUNT(*) FROM t GROUP BY region
SELECT children + 1 AS c, COUNT(*) FROM t GROUP BY children
SELECT children, children * COUNT(*) FROM t GROUP BY children
SELECT region, COUNT(*) FROM t GROUP BY region HAVING UPPER(region) = 'NORTH' OR COUNT(*) < 300
SELECT region, COUNT(*) FROM t GROUP BY region HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY region))
SELECT CASE WHEN region = 'north' THEN 'N' ELSE 'other' END AS k, AVG(age) FROM t GROUP BY k
SELECT region, SUM(CASE WHEN sex = 'Male' THEN 1 ELSE 0 END) AS male, SUM(CASE WHEN sex = 'Female' THEN 1 ELSE 0 END) AS female FROM t GROUP BY region
SELECT region, COUNT(*) FILTER (WHERE sex = 'Male') AS m, COUNT(*) FILTER (WHERE sex = 'Female') AS f, m - f AS d FROM t GROUP BY region
SELECT (SELECT COUNT(*) FROM t WHERE smoker) AS a, (SELECT COUNT(*) FROM t) AS b
SELECT 1 + 1, 'x'
VALUES (1, 'a'), (2, 'b')
SELECT x, y FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y) WHERE x > 1
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region) SELECT region, n, RANK() OVER (ORDER BY n DESC) AS r FROM g WHERE n > 100
WITH g AS (SELECT age, COUNT(*) AS n FROM t GROUP BY age) SELECT age, n FROM g WHERE age >= 45
SELECT age, COUNT(*) FROM t GROUP BY age HAVING age + 0 >= 45
SELECT region AS r, COUNT(*) AS n FROM t WHERE r = 'north' GROUP BY r
SELECT STRING_AGG(sex, ',') FROM (SELECT sex FROM t GROUP BY sex ORDER BY sex)
SELECT BOOL_AND(n > 10), BOOL_OR(n > 1000000) FROM (SELECT COUNT(*) AS n FROM t GROUP BY region)
SELECT visit, COUNT(*) FROM t GROUP BY visit HAVING visit >= DATE '2024-04-01'
SELECT DATE_TRUNC('quarter', visit) AS q, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY DATE_TRUNC('quarter', visit)) FROM t GROUP BY 1
SELECT EXTRACT(QUARTER FROM visit) AS q, sex, COUNT(*) FROM t GROUP BY q, sex
PIVOT t ON sex USING COUNT(*) GROUP BY children
PIVOT t ON children USING COUNT(*) GROUP BY sex
PIVOT t ON sex USING COUNT(*) AS n, AVG(age) AS a GROUP BY children
PIVOT (SELECT sex, children FROM t) ON sex USING COUNT(*)
FROM t PIVOT (COUNT(*) FOR sex IN ('Male', 'Female') GROUP BY children)
WITH g AS (SELECT sex, children, COUNT(*) AS n FROM t GROUP BY ALL) PIVOT g ON sex USING SUM(n) GROUP BY children
SELECT MAX(n) - MIN(n) FROM (SELECT children, COUNT(*) AS n FROM t GROUP BY children)
SELECT * FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) AS a CROSS JOIN (SELECT COUNT(*) AS total FROM t) AS b
SELECT a.sex, a.n, b.n FROM (SELECT sex, COUNT(*) n FROM t GROUP BY 1) a JOIN (SELECT sex, COUNT(*) n FROM t WHERE smoker GROUP BY 1) b ON a.sex = b.sex
SELECT * EXCLUDE (n) FROM (SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY sex)
SELECT AVG(y), MAX(n) FROM (SELECT x.children * 2 AS y, x.children AS n FROM t AS x)
SELECT STRING_AGG(region, ',' ORDER BY region) FROM (SELECT region, COUNT(*) AS n FROM t GROUP BY region)
SELECT STRING_AGG(region, '/' ORDER BY region DESC) FROM (SELECT region, COUNT(*) AS n FROM t GROUP BY region)
SELECT smoker, STRING_AGG(region, ',' ORDER BY n DESC) FROM (SELECT region, smoker, COUNT(*) AS n FROM t GROUP BY region, smoker) GROUP BY smoker
SELECT TIME_BUCKET(INTERVAL 1 MONTH, DATE '2024-02-29'), TIME_BUCKET(INTERVAL 1 DAY, TIMESTAMP '2024-02-29 10:00:00'), n FROM (SELECT COUNT(*) AS n FROM t)
SELECT n / 2, n // 2, n % 2, -n, n + 1, n * n FROM (SELECT COUNT(*) AS n FROM t)""".split("\n")

IN_ORDER = """SELECT region, COUNT(*) FROM t GROUP BY region ORDER BY COUNT(*) * -1
SELECT region, COUNT(*) FROM t GROUP BY region ORDER BY LENGTH(region), region
SELECT region, sex, COUNT(*) FROM t GROUP BY ALL ORDER BY ALL
SELECT sex, region, COUNT(*) FROM t GROUP BY ALL ORDER BY sex DESC, AVG(age) LIMIT 5
SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY RANK() OVER (ORDER BY COUNT(*) DESC)
SELECT UPPER(region) AS u, COUNT(*) FROM t GROUP BY u ORDER BY u DESC NULLS LAST LIMIT 3
WITH g AS (SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY n DESC LIMIT 3) SELECT region, n FROM g ORDER BY n
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM t GROUP BY region) ORDER BY n DESC LIMIT 2 OFFSET 1
SELECT sex, COUNT(*) AS n FROM t GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM t ORDER BY n DESC
SELECT children, COUNT(*) FROM t GROUP BY children ORDER BY children % 2, children
SELECT region, sex, COUNT(*) AS n FROM t GROUP BY ROLLUP(region, sex) ORDER BY n DESC LIMIT 4
SELECT visit, COUNT(*) FROM t GROUP BY visit ORDER BY EXTRACT(QUARTER FROM visit) DESC
SELECT DATE_TRUNC('quarter', visit) AS q, COUNT(*) FROM t GROUP BY q ORDER BY q DESC
SELECT sex, MEDIAN(age), COUNT(*) FROM t GROUP BY sex ORDER BY 3 DESC
SELECT DISTINCT children FROM t ORDER BY children DESC LIMIT 2
(SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY n LIMIT 1) UNION ALL SELECT 'all', COUNT(*) FROM t ORDER BY 2 DESC""".split(
    "\n"
)

DATE_KEYS = """day
DATE_TRUNC('month', day)
DATE_TRUNC('week', day)
DATE_TRUNC('day', day)
EXTRACT(DAY FROM day)
EXTRACT(DOW FROM day)
EXTRACT(ISODOW FROM day)
EXTRACT(WEEK FROM day)
EXTRACT(DOY FROM day)
DAYOFWEEK(day)
DAYNAME(day)
MONTHNAME(day)
LAST_DAY(day)
day + 1
day - 1
day + INTERVAL 1 MONTH
day - INTERVAL 2 DAY
day - DATE '2024-01-01'
DATE_DIFF('day', DATE '2024-02-22', day)
DATE_DIFF('month', DATE '2023-12-31', day)
DATE_SUB('month', DATE '2023-12-25', day)
DATE_SUB('day', DATE '2023-12-25', day)
STRFTIME(day, '%Y-%m-%d')
STRFTIME(day, '%d/%m/%y %b %j')
day::VARCHAR
CAST(day AS TIMESTAMP)
EXTRACT(YEAR FROM AGE(DATE '2025-02-24', day))
day > DATE '2024-02-24'
day IS NULL
COALESCE(day, DATE '2000-01-01')
CASE WHEN day < '2024-02-24' THEN 'early' ELSE 'late' END
MAKE_DATE(2024, 2, 1) < day
month
YEAR(month)
MONTH(month)
QUARTER(month)
EXTRACT(MONTH FROM month)
DATE_TRUNC('month', month)
DATE_TRUNC('quarter', month)
DATE_TRUNC('year', month)
STRFTIME(month, '%Y-%m')
STRFTIME(month, '%B')
MONTHNAME(month)
LAST_DAY(month)
YEAR(month) * 100 + MONTH(month)
DATE_DIFF('month', DATE '2023-01-15', month)
DATE_DIFF('quarter', DATE '2023-01-15', month)
DATE_DIFF('year', DATE '2020-01-15', month)
month >= DATE '2024-01-01'
month < '2024-01-01'
month BETWEEN DATE '2023-12-01' AND DATE '2024-01-31'
DATE_TRUNC('month', month) = DATE '2024-01-01'
CASE WHEN MONTH(month) IN (1, 2) THEN 'winter' ELSE 'other' END
DATE_TRUNC('day', stamp)
EXTRACT(YEAR FROM stamp)
CAST(stamp AS DATE)
stamp >= TIMESTAMP '2024-01-01 06:00:00'
stamp < '2024-01-01 12:00:00'
DATE_TRUNC('year', stamp)""".split("\n")

CUT_TESTS = """age > 30
age = 30
income <= 20
age BETWEEN 20 AND 40
income > 15 AND income < 60
NOT age > 30
age > 30 OR sex = 'Male'
age > income
age + income > 60
visit >= DATE '2024-05-15'
income > 33.3 AND visit < DATE '2024-02-02'
NOT (income > 33 OR age < 50)
(age > 30) IS TRUE
(income > 30) IS NOT TRUE
age <> 30
age IN (20, 30)
age * 2 > 70
income / age > 1
EXTRACT(MONTH FROM visit) = 2
ABS(age - 40) < 10
age + 5 >= 45
income > (SELECT AVG(income) FROM t)""".split("\n")
"""Conditions that bins leave open: answered within a bound that holds the open records."""

CUT_NUMBERS = """COUNT(*)
SUM(children)
AVG(income)
SUM(income - 30)
AVG(age)
COUNT(income)
SUM(-age)
COUNT(*) FILTER (WHERE age > 50)
COUNT_IF(income < 33)
SUM(CASE WHEN age > 50 THEN children ELSE -1 END)
SUM(age * income)
AVG(SQRT(age))""".split("\n")

AS_TYPED = [
    *(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k" for key in KEYS),
    *(f"SELECT AVG(children) FROM t GROUP BY {key}" for key in KEYS),
    *(f"SELECT COUNT(*), AVG(children) FROM t WHERE {test}" for test in TESTS),
    *(f"SELECT sex, COUNT(*) FROM t WHERE {test} GROUP BY sex" for test in TESTS),
    *(f"SELECT {number} FROM t" for number in NUMBERS),
    *(f"SELECT {key}, {number} FROM t GROUP BY {key}" for number in BY_GROUP for key in ("sex", "region")),
    *RELATIONS,
]
DATED = [
    *(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k" for key in DATE_KEYS),
    *(f"SELECT COUNT(*) FROM t WHERE ({key}) IS NOT NULL AND kind = 'a'" for key in DATE_KEYS),
    "SELECT MEDIAN(day), QUANTILE_DISC(day, 0.2) FROM t",
    "SELECT kind, MEDIAN(month), COUNT(DISTINCT day) FROM t GROUP BY kind",
    "SELECT MODE(day) FROM t",
]
CUT = [
    *(f"SELECT {number} FROM t WHERE {test}" for number in CUT_NUMBERS for test in CUT_TESTS),
    *(
        f"SELECT sex, {number} FROM t WHERE {test} GROUP BY sex"
        for number in CUT_NUMBERS[:4]
        for test in CUT_TESTS[:10]
    ),
]
