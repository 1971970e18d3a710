# ruff: noqa: E501, SIM905 - statements stand one to a line, as an analyst would type them
"""A second and a third table, and what analysts typed about them without knowing what is supported."""

from __future__ import annotations

OF_TRIPS = """select payment_type "Type", count(*) "Trips" from trips group by "Type" order by "Trips" desc, "Type" limit 5 offset 1
SELECT strftime(pickup_date, '%Y-%m') ym, count(*) n, n - lag(n) over (order by ym) AS change FROM trips GROUP BY ym
SELECT month(pickup_date) m, count(*) filter (where airport) airport, count(*) filter (where not airport) city FROM trips GROUP BY m ORDER BY m
SELECT quarter(pickup_date) AS q, avg(fare) FROM trips WHERE pickup_date between '2021-01-01' and '2021-12-31' GROUP BY q ORDER BY q
SELECT EXTRACT(month FROM pickup_date) % 2 = 0 AS even, COUNT(*) FROM trips GROUP BY even
SELECT date_trunc('quarter', pickup_date)::date AS q, sum(tips) FROM trips GROUP BY 1 ORDER BY 1
SELECT monthname(pickup_date), count(*) FROM trips GROUP BY monthname(pickup_date)
SELECT COUNT(*) FROM trips WHERE pickup_date >= '2021-03-01'::date AND pickup_date < '2021-03-01'::date + interval '1 month'
SELECT COUNT(*) FROM trips WHERE date_part('month', pickup_date) IN (6,7,8)
SELECT COUNT(*) FROM trips WHERE extract(quarter from pickup_date) = 4 and airport is true
SELECT COUNT(*) FROM trips WHERE pickup_date < date '2021-02-01' or pickup_date >= date '2021-12-01'
SELECT CASE WHEN month(pickup_date) IN (12,1,2) THEN 'winter' WHEN month(pickup_date) <= 5 THEN 'spring' WHEN month(pickup_date) <= 8 THEN 'summer' ELSE 'autumn' END season, COUNT(*), AVG(fare) FROM trips GROUP BY season
SELECT CASE payment_type WHEN 'Cash' THEN 'cash' WHEN 'Credit Card' THEN 'card' ELSE 'other' END AS how, COUNT(*), SUM(tips) FROM trips GROUP BY 1
SELECT SUM(CASE WHEN tips IS NULL THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS missing FROM trips
SELECT COUNT(*) - COUNT(tips) AS missing_tips, COUNT(tips) AS known_tips FROM trips
SELECT AVG(COALESCE(tips, 0)) FROM trips
SELECT SUM(COALESCE(tips, 0) + fare) FROM trips
SELECT AVG(tips / fare) FROM trips WHERE fare >= 10
SELECT AVG(NULLIF(shift, 0)) FROM trips
SELECT payment_type, AVG(tips) AS avg_tip FROM trips WHERE tips IS NOT NULL GROUP BY payment_type HAVING COUNT(*) > 100 ORDER BY avg_tip DESC
SELECT payment_type, COUNT(*) AS n FROM trips GROUP BY payment_type HAVING n BETWEEN 100 AND 600
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type HAVING COUNT(*) > 0.05 * (SELECT COUNT(*) FROM trips)
SELECT payment_type, COUNT(*) FROM trips WHERE payment_type NOT IN ('Cash', 'Unknown') GROUP BY payment_type
SELECT COUNT(*) FROM trips WHERE lower(payment_type) LIKE '%card%'
SELECT COUNT(*) FROM trips WHERE payment_type ILIKE 'c%' AND payment_type NOT ILIKE '%card'
SELECT split_part(payment_type, ' ', 1) AS first_word, COUNT(*) FROM trips GROUP BY first_word
SELECT length(payment_type), COUNT(*) FROM trips GROUP BY 1 ORDER BY 1 NULLS LAST
SELECT concat(payment_type, ' / ', airport), count(*) FROM trips GROUP BY 1
SELECT payment_type || ':' || shift AS k, COUNT(*) FROM trips WHERE shift < 2 GROUP BY k
SELECT upper(left(payment_type, 2)), COUNT(*) FROM trips GROUP BY 1
SELECT CAST(airport AS INT) AS a, COUNT(*) FROM trips GROUP BY a
SELECT AVG(airport::int) FROM trips
SELECT SUM(airport::int) AS airport_trips, COUNT(*) - SUM(airport::int) AS rest FROM trips
SELECT shift / 7 AS w, COUNT(*) FROM trips GROUP BY w
SELECT shift // 7 AS weekday, COUNT(*) FROM trips GROUP BY weekday ORDER BY weekday
SELECT (shift % 3)::varchar || 'x' AS s, COUNT(*) FROM trips GROUP BY s
SELECT pickup_area, RANK() OVER (ORDER BY AVG(fare) DESC) FROM trips GROUP BY pickup_area
SELECT pickup_area, payment_type, COUNT(*), ROW_NUMBER() OVER (PARTITION BY pickup_area ORDER BY COUNT(*) DESC) FROM trips WHERE payment_type IN ('Cash','Mobile','Dispute') GROUP BY pickup_area, payment_type
SELECT m, n, SUM(n) OVER (ORDER BY m) running, AVG(n) OVER (ORDER BY m ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) ma3 FROM (SELECT month(pickup_date) m, COUNT(*) n FROM trips GROUP BY 1) x
SELECT m, n, n * 1.0 / FIRST_VALUE(n) OVER (ORDER BY m) - 1 AS growth FROM (SELECT month(pickup_date) m, COUNT(*) n FROM trips GROUP BY 1) x
SELECT airport, payment_type, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (PARTITION BY airport) pct FROM trips GROUP BY airport, payment_type
SELECT airport, COUNT(*), GROUPING(airport) FROM trips GROUP BY ROLLUP (airport)
SELECT coalesce(airport::text, 'total') a, COUNT(*) FROM trips GROUP BY ROLLUP(airport)
SELECT pickup_area, airport, COUNT(*) FROM trips GROUP BY CUBE(pickup_area, airport) HAVING GROUPING(pickup_area) = 1
SELECT COUNT(*) FROM (SELECT * FROM trips WHERE airport) s WHERE fare >= 20
SELECT a.pickup_area, a.n, b.n FROM (SELECT pickup_area, COUNT(*) n FROM trips WHERE airport GROUP BY 1) a JOIN (SELECT pickup_area, COUNT(*) n FROM trips WHERE NOT airport GROUP BY 1) b USING (pickup_area)
SELECT COUNT(*) FROM trips WHERE pickup_area IN (SELECT pickup_area FROM trips GROUP BY pickup_area ORDER BY COUNT(*) DESC LIMIT 2)
SELECT pickup_area FROM trips GROUP BY pickup_area HAVING SUM(CASE WHEN airport THEN 1 ELSE 0 END) > 100
SELECT pickup_area, COUNT(*) AS n FROM trips t1 WHERE t1.airport GROUP BY t1.pickup_area ORDER BY n DESC, 1
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY shift) AS p90, percentile_cont(0.1) WITHIN GROUP (ORDER BY shift) AS p10 FROM trips
SELECT payment_type, median(shift), quantile_cont(shift, 0.75) - quantile_cont(shift, 0.25) AS iqr FROM trips GROUP BY payment_type
SELECT approx_quantile(trip_seconds, 0.5) / 60 FROM trips
SELECT airport, regr_slope(tips, fare) slope, regr_intercept(tips, fare) icpt, regr_r2(tips, fare) r2, regr_count(tips, fare) n FROM trips GROUP BY airport
SELECT corr(fare, tips), covar_samp(fare, tips), stddev_samp(fare) FROM trips WHERE NOT airport
SELECT avg(fare), stddev(fare) / avg(fare) AS cv, count(*) FROM trips
SELECT avg(fare) - 1.96 * stddev(fare) / sqrt(count(*)) AS lo, avg(fare) + 1.96 * stddev(fare) / sqrt(count(*)) AS hi FROM trips
SELECT airport, avg(fare) FILTER (WHERE payment_type = 'Cash') AS cash, avg(fare) FILTER (WHERE payment_type <> 'Cash') AS rest FROM trips GROUP BY airport
SELECT 'cash' AS what, COUNT(*) AS n FROM trips WHERE payment_type = 'Cash' UNION ALL SELECT 'total', COUNT(*) FROM trips UNION ALL SELECT 'airport', COUNT(*) FROM trips WHERE airport
PIVOT trips ON payment_type IN ('Cash', 'Mobile') USING COUNT(*) GROUP BY airport
PIVOT trips ON airport USING AVG(fare) GROUP BY pickup_area
SELECT * FROM (SELECT airport, pickup_area, fare FROM trips) PIVOT (COUNT(fare) FOR pickup_area IN (0, 1, 2))
WITH x AS (SELECT airport, COUNT(*) n FROM trips GROUP BY 1) SELECT airport, n, n / SUM(n) OVER () share FROM x
SELECT DISTINCT airport, pickup_area FROM trips ORDER BY 1, 2 LIMIT 3
SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM trips GROUP BY pickup_area, airport)
SELECT AVG(n) FROM (SELECT month(pickup_date) AS m, COUNT(*) AS n FROM trips GROUP BY m) WHERE m BETWEEN 6 AND 8
SELECT SUM(fare * CASE WHEN airport THEN 1 ELSE 0 END) / NULLIF(SUM(fare), 0) AS share FROM trips
SELECT SUM(fare) FILTER (WHERE airport) / SUM(fare) AS share FROM trips
SELECT COUNT(*)::float8 / 12 AS per_month FROM trips
SELECT GREATEST(AVG(fare), AVG(tips)), LEAST(COUNT(*), 10) FROM trips
SELECT COUNT(*) n FROM trips WHERE (airport, pickup_area) = (true, 1)
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY CASE WHEN payment_type = 'Cash' THEN 0 ELSE 1 END, payment_type NULLS LAST
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY 1 DESC NULLS FIRST LIMIT 2
SELECT airport, COUNT(*) AS "n" FROM "trips" WHERE "payment_type" = 'Cash' GROUP BY "airport" ORDER BY "n" DESC
SELECT t.airport, t.pickup_area, COUNT(*) FROM trips AS t GROUP BY t.airport, t.pickup_area ORDER BY t.airport, t.pickup_area
SELECT COUNT(*) FROM trips WHERE NOT (airport OR payment_type = 'Cash')
SELECT COUNT(*) FROM trips WHERE airport = 'true'
SELECT COUNT(*) FROM trips WHERE shift = '3'
SELECT COUNT(*) FROM trips WHERE fare BETWEEN 10 AND 20
SELECT YEAR(pickup_date) AS y, COUNT(*) FROM trips GROUP BY y HAVING y >= 2021
SELECT SUM(n) FILTER (WHERE payment_type = 'Cash') * 100.0 / SUM(n) FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY 1)
SELECT payment_type, COUNT(*) n, CASE WHEN COUNT(*) >= 500 THEN 'large' WHEN COUNT(*) >= 200 THEN 'mid' ELSE 'small' END size FROM trips GROUP BY payment_type
SELECT ifnull(payment_type, '?') p, sum(fare) s, sum(sum(fare)) over (order by ifnull(payment_type, '?')) cum FROM trips GROUP BY p
SELECT count(*) c, count(*) * 2 d, c + d FROM trips
SELECT count(*) AS total, total / 4 AS quarter FROM trips
SELECT COUNT(1), COUNT(ALL tips), SUM(1) FROM trips
SELECT COUNT(*) FROM trips WHERE 1=1 AND airport = TRUE AND 2 > 1
SELECT COUNT(*) FROM trips WHERE tips IS NOT NULL AND tips >= 2 AND NOT airport IS NULL
SELECT COUNT(*) FROM trips WHERE ifnull(tips, 0) >= 2
SELECT COUNT(*) FROM trips WHERE coalesce(tips, 0) < 2
SELECT COUNT(*) FROM trips WHERE tips + fare >= 0
SELECT COUNT(*) FROM trips WHERE abs(shift - 10) <= 3
SELECT fare >= 20 AS pricey, COUNT(*) FROM trips GROUP BY pricey
SELECT COUNT(*) FROM trips HAVING COUNT(*) > 10
SELECT payment_type FROM trips GROUP BY payment_type ORDER BY COUNT(*) DESC LIMIT 1
SELECT ARG_MAX(payment_type, n) FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY 1)
SELECT payment_type, n FROM (SELECT payment_type, COUNT(*) n, RANK() OVER (ORDER BY COUNT(*) DESC) r FROM trips GROUP BY payment_type) WHERE r = 1
SELECT date_trunc('month', pickup_date) + INTERVAL 1 MONTH AS next, COUNT(*) FROM trips GROUP BY next
SELECT datediff('month', DATE '2021-01-01', pickup_date) AS age, COUNT(*) FROM trips GROUP BY age
SELECT last_day(pickup_date), COUNT(*) FROM trips GROUP BY 1
SELECT EXTRACT(YEAR FROM pickup_date) || '-Q' || EXTRACT(QUARTER FROM pickup_date) AS q, COUNT(*) FROM trips GROUP BY q ORDER BY q
SELECT ALL COUNT(*) FROM trips
SELECT COUNT(*) FROM trips LIMIT 1
FROM trips SELECT COUNT(*)
SELECT AVG(CASE WHEN airport THEN fare END) FROM trips
SELECT AVG(fare) FROM trips WHERE payment_type IS NOT DISTINCT FROM NULL
SELECT SUM(fare) / COUNT(DISTINCT pickup_area) FROM trips
SELECT COUNT(*) FROM trips WHERE pickup_area = ANY (SELECT pickup_area FROM trips GROUP BY 1)
SELECT COUNT(*) FROM trips WHERE payment_type SIMILAR TO 'C.*'
SELECT COUNT(*) FROM trips WHERE payment_type ~* '^c'
SELECT COUNT(*) FROM trips WHERE regexp_matches(payment_type, '^C')
SELECT EXP(AVG(LN(fare))) FROM trips WHERE fare >= 10
SELECT SUM(LN(fare)) FILTER (WHERE fare >= 20), COUNT(LN(fare)) FILTER (WHERE fare >= 20) FROM trips
SELECT airport, AVG(tips / NULLIF(fare, 0)) FROM trips WHERE fare >= 10 AND airport GROUP BY airport
SELECT STDDEV(tips / fare), CORR(1 / fare, tips) FROM trips WHERE fare >= 10
SELECT COUNT(*) n FROM trips WHERE (payment_type, shift) <> ('Cash', 4)
SELECT COUNT(*) FROM trips WHERE shift IN ('3', '4') AND fare >= '10' AND fare BETWEEN '0' AND '30'
SELECT COUNT(*) FROM trips WHERE pickup_area = ANY (SELECT pickup_area FROM trips GROUP BY 1 HAVING COUNT(*) > 900)
SELECT COUNT(*) FROM trips WHERE pickup_area <> ALL (SELECT pickup_area FROM trips GROUP BY 1 HAVING COUNT(*) > 900)
SELECT `payment_type`, COUNT(*) FROM `trips` GROUP BY `payment_type`
SELECT COUNT(*) FROM trips WHERE payment_type ~ 'C.*d'
SELECT COUNT(*) FROM trips WHERE payment_type !~ 'C.*d'
SELECT COUNT(*) FROM trips WHERE regexp_matches(payment_type, '^c', 'i')
SELECT COUNT(*) FROM trips WHERE regexp_matches(payment_type, 'r[de]')
SELECT COUNT(*) FROM trips WHERE NOT regexp_matches(payment_type, 'r[de]')
SELECT regexp_matches(payment_type, '(a+)+$') AS k, COUNT(*) FROM trips GROUP BY k
SELECT COUNT(*) FROM trips WHERE regexp_full_match(lower(payment_type), '[a-z ]+card')
SELECT COUNT(*) FROM trips WHERE payment_type ~* 'cash'""".split("\n")
"""Answered as DuckDB answers them on the decoded table."""

TRIPS_IN_ORDER = """select payment_type "Type", count(*) "Trips" from trips group by "Type" order by "Trips" desc, "Type" limit 5 offset 1
SELECT month(pickup_date) m, count(*) filter (where airport) airport, count(*) filter (where not airport) city FROM trips GROUP BY m ORDER BY m
SELECT quarter(pickup_date) AS q, avg(fare) FROM trips WHERE pickup_date between '2021-01-01' and '2021-12-31' GROUP BY q ORDER BY q
SELECT date_trunc('quarter', pickup_date)::date AS q, sum(tips) FROM trips GROUP BY 1 ORDER BY 1
SELECT payment_type, AVG(tips) AS avg_tip FROM trips WHERE tips IS NOT NULL GROUP BY payment_type HAVING COUNT(*) > 100 ORDER BY avg_tip DESC
SELECT length(payment_type), COUNT(*) FROM trips GROUP BY 1 ORDER BY 1 NULLS LAST
SELECT shift // 7 AS weekday, COUNT(*) FROM trips GROUP BY weekday ORDER BY weekday
SELECT pickup_area, COUNT(*) AS n FROM trips t1 WHERE t1.airport GROUP BY t1.pickup_area ORDER BY n DESC, 1
SELECT DISTINCT airport, pickup_area FROM trips ORDER BY 1, 2 LIMIT 3
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY CASE WHEN payment_type = 'Cash' THEN 0 ELSE 1 END, payment_type NULLS LAST
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY 1 DESC NULLS FIRST LIMIT 2
SELECT airport, COUNT(*) AS "n" FROM "trips" WHERE "payment_type" = 'Cash' GROUP BY "airport" ORDER BY "n" DESC
SELECT t.airport, t.pickup_area, COUNT(*) FROM trips AS t GROUP BY t.airport, t.pickup_area ORDER BY t.airport, t.pickup_area
SELECT EXTRACT(YEAR FROM pickup_date) || '-Q' || EXTRACT(QUARTER FROM pickup_date) AS q, COUNT(*) FROM trips GROUP BY q ORDER BY q""".split(
    "\n"
)
"""Those whose rows have one order."""

CUT_TRIPS = """SELECT COUNT(*) FROM trips WHERE pickup_date = '2021-05-01'
SELECT AVG(1 / fare) FROM trips WHERE fare > 12
SELECT COUNT(*) FROM trips WHERE tips > fare
SELECT COUNT(*) FROM trips WHERE pickup_date >= DATE '2021-06-15'
SELECT COUNT(*) FROM trips WHERE fare = 10""".split("\n")
"""Conditions that bins leave open: answered within a bound."""

_REFUSED_TRIPS = """SELECT COUNT(*) FROM trips WHERE payment_type NOT IN ('Cash', NULL) => NOT payment_type IN ('Cash', NULL) lists NULL, so it is never true; leave NULL out of the list
SELECT COUNT(DISTINCT payment_type), COUNT(DISTINCT (airport, pickup_area)) FROM trips => COUNT(DISTINCT (airport, pickup_area)) counts combinations; SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM ..
SELECT CAST(COUNT(*) AS VARCHAR) FROM trips => CAST(COUNT(*) AS TEXT) writes a noisy number as text; show the number itself
SELECT COUNT(*) n FROM trips WHERE (pickup_area, shift) IN ((1, 2), (3, 4)) => pickup_area == 3: not one of the integers 0..2
SELECT COUNT(*) FROM trips WHERE payment_type = 'cash' => payment_type == "cash": not one of the 7 declared values; did you mean Cash
SELECT COUNT(*) FROM trips WHERE fare BETWEEN SYMMETRIC 20 AND 10 => "SYMMETRIC" is not supported in (fare BETWEEN 20 AND 10 OR fare BETWEEN 10 AND 20); leave it out
SELECT dayname(pickup_date), COUNT(*) FROM trips GROUP BY 1 => GROUP BY DAYNAME(pickup_date) divides the bin 2021-01-01 to 2021-01-31 of pickup_date; group by the column, or
SELECT payment_type, string_agg(airport, ',') FROM trips GROUP BY payment_type => STRING_AGG(airport, ',') would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT TOP 10 PERCENT payment_type, COUNT(*) FROM trips GROUP BY payment_type => the SQL cannot be read at line 1, column 13 near "10": invalid expression / unexpected token
SELECT ROUND(fare, -1) AS r, COUNT(*) FROM trips GROUP BY r => GROUP BY ROUND(fare, -1) divides the bin [0, 10) of fare; group by the column, or at the edges of its bins
SELECT pickup_date - INTERVAL '1 month' AS p, COUNT(*) FROM trips GROUP BY p => GROUP BY pickup_date - INTERVAL '1' MONTH divides the bin 2021-01-01 to 2021-01-31 of pickup_date; group by th
SELECT COUNT(*) FROM trips USING SAMPLE 10% => a sample of rows cannot be drawn; the answer covers all records, or use synthesize(rows)
SELECT CEIL(trip_seconds / 300) AS five, COUNT(*) FROM trips GROUP BY five => GROUP BY CEIL(trip_seconds / 300) divides the bin 0-299 of trip_seconds; group by the column, or at the edges
SELECT REGEXP_REPLACE(payment_type, ' .*', '') AS w, COUNT(*) FROM trips GROUP BY w => REGEXP_REPLACE(payment_type, ' .*', '') cannot be answered here; use columns, constants and functions of them
SELECT HARMONIC_MEAN(fare) FROM trips => unknown function "HARMONIC_MEAN"; use columns, constants and functions of them
SELECT GEOMEAN(fare) FROM trips WHERE fare >= 10 => unknown function "GEOMEAN"; did you mean MEDIAN
SELECT SUM(fare) OVER () FROM trips => SUM(fare) OVER () ranks records; group first, and rank the groups
SELECT AVG(tips / fare) FROM trips => tips / fare may be NULL within the bin [0, 10) of fare and the bin [0, 2) of tips; leave it out with WHERE, at
SELECT COUNT(1 / fare), SUM(1 / fare) FROM trips WHERE fare > 5 => 1 / fare may be NULL within the bin [0, 10) of fare; leave it out with WHERE, at the edges of bins
SELECT COUNT(*) n FROM trips WHERE (pickup_area, shift) NOT IN ((1, 2), (3, 4)) => pickup_area == 3: not one of the integers 0..2
SELECT COUNT(*) n FROM trips WHERE (payment_type, shift) = ('Cash', 4, 5) => (payment_type, shift) = ('Cash', 4, 5) compares lists of different lengths; list as many values in each
SELECT COUNT(*) FROM trips WHERE shift = 'three' => shift == "three": expected a finite number
SELECT COUNT(*) FROM trips WHERE regexp_matches(payment_type, '(a') => REGEXP_MATCHES(payment_type, '(a') is no regular expression of RE2; use LIKE or IN""".split(
    "\n"
)
"""With the reason."""

OF_ORDERS = """SELECT "Customer Segment", COUNT(*) FROM orders GROUP BY "Customer Segment" ORDER BY 2 DESC
SELECT "customer segment" seg, AVG("Unit Price") FROM orders GROUP BY seg ORDER BY seg
SELECT `Customer Segment`, COUNT(*) FROM orders GROUP BY 1
SELECT "group", COUNT(*) FROM orders GROUP BY "group"
SELECT o."group", COUNT(*) FROM orders o WHERE o."group" = 'it''s' GROUP BY o."group"
SELECT COUNT(*) FROM orders WHERE "group" IN ('a', 'B') OR "group" IS NULL
SELECT LOWER("group") g, COUNT(*) FROM orders GROUP BY g
SELECT UPPER("group"), LENGTH("group"), COUNT(*) FROM orders GROUP BY "group"
SELECT REVERSE("group"), COUNT(*) FROM orders GROUP BY 1
SELECT SUM("Unit Price" * qty) AS revenue FROM orders
SELECT "Customer Segment", SUM("Unit Price" * qty) AS revenue, SUM(SUM("Unit Price" * qty)) OVER () AS total FROM orders GROUP BY 1
SELECT "Customer Segment", 100 * SUM(profit) / SUM("Unit Price" * qty) AS margin FROM orders GROUP BY 1
SELECT SUM(profit), AVG(profit), COUNT(profit) FROM orders WHERE profit < 0
SELECT SUM(CASE WHEN profit < 0 THEN profit ELSE 0 END) AS losses, SUM(CASE WHEN profit >= 0 THEN profit ELSE 0 END) AS gains FROM orders
SELECT profit >= 0 AS positive, COUNT(*) FROM orders GROUP BY positive
SELECT AVG(ABS(profit)) FROM orders
SELECT AVG(-profit) FROM orders WHERE is_gift
SELECT COUNT(*) FROM orders WHERE -profit > 0
SELECT COUNT(*) FROM orders WHERE profit BETWEEN -50 AND 50
SELECT COUNT(*) FROM orders WHERE profit > -50 AND profit < 50
SELECT COUNT(*) FROM orders WHERE profit * profit >= 2500
SELECT STDDEV_POP(profit), VAR_SAMP(profit), MEDIAN(profit) FROM orders
SELECT CORR(qty, "Unit Price"), REGR_SLOPE(profit, qty), REGR_SXY(profit, qty) FROM orders WHERE NOT is_gift
SELECT YEAR("Order Date") y, QUARTER("Order Date") q, COUNT(*) FROM orders GROUP BY y, q ORDER BY y NULLS LAST, q NULLS LAST
SELECT YEAR("Order Date") y, COUNT(*), COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY YEAR("Order Date")) FROM orders WHERE "Order Date" IS NOT NULL GROUP BY y
SELECT DATE_TRUNC('year', "Order Date") y, SUM(qty) FROM orders GROUP BY 1
SELECT EXTRACT(YEAR FROM "Order Date")::INT * 100 + EXTRACT(QUARTER FROM "Order Date") AS yq, COUNT(*) FROM orders GROUP BY yq
SELECT COUNT(*) FROM orders WHERE "Order Date" >= '2023-01-01'
SELECT COUNT(*) FROM orders WHERE "Order Date" > '2022-12-31'
SELECT COUNT(*) FROM orders WHERE "Order Date" <= '2022-12-31'
SELECT COUNT(*) FROM orders WHERE "Order Date" BETWEEN '2022-04-01' AND '2022-06-30'
SELECT COUNT(*) FROM orders WHERE NOT ("Order Date" >= '2023-01-01')
SELECT COUNT(*) FROM orders WHERE YEAR("Order Date") <> 2022
SELECT COUNT(*) FROM orders WHERE YEAR("Order Date") NOT IN (2022)
SELECT COUNT(*) FROM orders WHERE "Order Date" IS NULL OR YEAR("Order Date") = 2023
SELECT COUNT(*) FILTER (WHERE "Order Date" >= '2023-01-01') * 1.0 / COUNT(*) FILTER (WHERE "Order Date" < '2023-01-01') - 1 AS growth FROM orders
SELECT DATE_TRUNC('day', shipped_at), COUNT(*) FROM orders GROUP BY 1
SELECT CASE WHEN shipped_at < '2023-01-01 12:00' THEN 'am' ELSE 'pm' END ap, COUNT(*) FROM orders GROUP BY ap
SELECT CASE WHEN shipped_at < TIMESTAMP '2023-01-01 12:00:00' THEN 'am' ELSE 'pm' END ap, COUNT(*) FROM orders GROUP BY ap
SELECT EXTRACT(HOUR FROM shipped_at) // 6 AS part, COUNT(*) FROM orders GROUP BY part
SELECT FLOOR(EXTRACT(HOUR FROM shipped_at) / 6) AS part, COUNT(*) FROM orders GROUP BY part
SELECT shipped_at::DATE d, COUNT(*) FROM orders GROUP BY d
SELECT COUNT(*) FROM orders WHERE shipped_at >= TIMESTAMP '2023-01-01 06:00:00' AND shipped_at < TIMESTAMP '2023-01-01 06:00:00' + INTERVAL 12 HOUR
SELECT COUNT(*) FROM orders WHERE is_gift IS NOT TRUE
SELECT COUNT(*) FROM orders WHERE NOT is_gift
SELECT COUNT(*) FROM orders WHERE is_gift = FALSE OR is_gift IS NULL
SELECT is_gift, COUNT(*), COUNT(is_gift) FROM orders GROUP BY is_gift
SELECT COALESCE(is_gift, FALSE) g, COUNT(*) FROM orders GROUP BY g
SELECT AVG(is_gift::INT), SUM(is_gift::INT), COUNT_IF(is_gift) FROM orders
SELECT AVG(CASE WHEN is_gift THEN 1 WHEN NOT is_gift THEN 0 END) FROM orders
SELECT CASE WHEN is_gift IS NULL THEN 'unknown' WHEN is_gift THEN 'gift' ELSE 'own' END k, AVG(qty), COUNT(*) FROM orders GROUP BY k ORDER BY 3 DESC
SELECT qty, COUNT(*) n, SUM(COUNT(*)) OVER (ORDER BY qty) cum, ROUND(SUM(COUNT(*)) OVER (ORDER BY qty) * 100.0 / SUM(COUNT(*)) OVER (), 2) cum_pct FROM orders GROUP BY qty
SELECT qty, COUNT(*) FROM orders WHERE qty > 0 GROUP BY qty HAVING COUNT(*) >= 100 ORDER BY qty DESC LIMIT 3
SELECT CASE WHEN qty = 0 THEN 'none' WHEN qty BETWEEN 1 AND 2 THEN '1-2' ELSE '3+' END bucket, COUNT(*) FROM orders GROUP BY bucket
SELECT qty + 0.5 AS h, COUNT(*) FROM orders GROUP BY h
SELECT qty::DOUBLE / 2 h, COUNT(*) FROM orders GROUP BY h
SELECT CAST(qty AS VARCHAR) || ' pcs', COUNT(*) FROM orders GROUP BY 1
SELECT POWER(qty, 2) p, COUNT(*) FROM orders GROUP BY p
SELECT qty IN (1, 3, 5) odd, COUNT(*) FROM orders GROUP BY odd
SELECT qty = 0 AS z, qty > 3 AS big, COUNT(*) FROM orders GROUP BY z, big
SELECT SUM(qty * qty), AVG(qty * qty) - AVG(qty) * AVG(qty) AS v FROM orders
SELECT SUM(qty) * 1.0 / COUNT(*), AVG(qty) FROM orders
SELECT MEDIAN(qty), MODE(qty), QUANTILE_DISC(qty, 0.9) FROM orders
SELECT "Customer Segment", MODE(qty), MEDIAN(qty) FROM orders GROUP BY 1
SELECT COUNT(*) FROM orders WHERE "Unit Price" >= 2.5 AND "Unit Price" < 10
SELECT COUNT(*) FROM orders WHERE "Unit Price" * 2 >= 5
SELECT COUNT(*) FROM orders WHERE "Unit Price" / 5 < 1
SELECT AVG("Unit Price" * 1.2) AS gross, AVG("Unit Price") * 1.2 FROM orders
SELECT CASE WHEN "Unit Price" < 5 THEN 'cheap' WHEN "Unit Price" < 25 THEN 'mid' ELSE 'dear' END AS band, "Customer Segment", COUNT(*) FROM orders GROUP BY ROLLUP(band, "Customer Segment")
SELECT COALESCE("Customer Segment", 'All') s, COUNT(*), GROUPING("Customer Segment") g FROM orders GROUP BY GROUPING SETS (("Customer Segment"), ()) ORDER BY g, s
SELECT "Customer Segment", is_gift, COUNT(*) FROM orders GROUP BY CUBE("Customer Segment", is_gift)
PIVOT orders ON "Customer Segment" USING SUM(qty) GROUP BY is_gift
PIVOT orders ON is_gift USING COUNT(*) GROUP BY "Customer Segment"
WITH base AS (SELECT "Customer Segment" seg, "Unit Price" * qty AS amount FROM orders), agg AS (SELECT seg, SUM(amount) s, AVG(amount) a FROM base GROUP BY seg) SELECT seg, s, a, s / (SELECT SUM(s) FROM agg) AS share FROM agg ORDER BY share DESC
WITH base AS (SELECT *, CASE WHEN profit >= 0 THEN 1 ELSE 0 END AS ok FROM orders) SELECT "Customer Segment", AVG(ok) FROM base GROUP BY 1
SELECT s.seg, s.n FROM (SELECT "Customer Segment" AS seg, COUNT(*) AS n FROM orders GROUP BY 1) s WHERE s.n = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY "Customer Segment"))
SELECT COUNT(*) FROM orders WHERE "Customer Segment" = (SELECT ARG_MAX(seg, n) FROM (SELECT "Customer Segment" AS seg, COUNT(*) AS n FROM orders GROUP BY 1))
SELECT COUNT(*) FROM orders WHERE qty >= (SELECT MEDIAN(qty) FROM orders)
SELECT COUNT(*) FROM orders WHERE qty > 2 * (SELECT AVG(qty) FROM orders)
SELECT a.is_gift, a.n * 1.0 / b.n FROM (SELECT is_gift, COUNT(*) n FROM orders GROUP BY 1) a, (SELECT COUNT(*) n FROM orders) b
SELECT 'gift' k, COUNT(*) n FROM orders WHERE is_gift UNION ALL SELECT 'not', COUNT(*) FROM orders WHERE NOT is_gift ORDER BY n DESC
SELECT k, n, n * 100.0 / SUM(n) OVER () FROM (SELECT 'gift' k, COUNT(*) n FROM orders WHERE is_gift UNION ALL SELECT 'not', COUNT(*) FROM orders WHERE NOT is_gift)
SELECT "Customer Segment", qty, COUNT(*) FROM orders GROUP BY 1, 2 QUALIFY RANK() OVER (PARTITION BY "Customer Segment" ORDER BY COUNT(*) DESC) <= 2
SELECT "Customer Segment", COUNT(*) c, NTILE(3) OVER (ORDER BY COUNT(*)) FROM orders GROUP BY 1
SELECT DISTINCT "Customer Segment" FROM orders ORDER BY 1 DESC
SELECT DISTINCT YEAR("Order Date") FROM orders
SELECT COUNT(DISTINCT "Customer Segment") * COUNT(*) FROM orders
SELECT COUNT(DISTINCT YEAR("Order Date")) FROM orders
SELECT COUNT(DISTINCT qty) FILTER (WHERE is_gift) FROM orders
SELECT "Customer Segment" AS "Segment Name", ROUND(AVG("Unit Price"), 2) AS "Avg. Price ($)" FROM orders GROUP BY "Segment Name" HAVING "Avg. Price ($)" > 1
SELECT count(*) AS "count", sum(qty) AS sum, avg(qty) AS avg FROM orders
SELECT "Customer Segment" AS seg, count(*) AS count FROM orders GROUP BY seg ORDER BY count DESC
SELECT seg, count FROM (SELECT "Customer Segment" AS seg, count(*) AS count FROM orders GROUP BY seg) WHERE count > 100
SELECT COUNT(*) FROM orders WHERE "Customer Segment" > 'Consumer'
SELECT COUNT(*) FROM orders WHERE "Customer Segment" BETWEEN 'Consumer' AND 'Corporate'
SELECT COUNT(*) FROM orders WHERE "Customer Segment" LIKE '_o%'
SELECT COUNT(*) FROM orders WHERE "Customer Segment" LIKE '%o_p%' OR "Customer Segment" LIKE 'Home%'
SELECT COUNT(*) FROM orders WHERE TRIM("Customer Segment") = 'Home Office'
SELECT REPLACE("Customer Segment", ' ', '_') s, COUNT(*) FROM orders GROUP BY s
SELECT SUBSTRING("Customer Segment", 1, 4) s, COUNT(*) FROM orders GROUP BY s ORDER BY COUNT(*)
SELECT NULLIF("Customer Segment", 'Consumer') s, COUNT(*) FROM orders GROUP BY s
SELECT COUNT(NULLIF("Customer Segment", 'Consumer')) FROM orders
SELECT CONCAT_WS('-', "Customer Segment", "group") k, COUNT(*) FROM orders GROUP BY k
SELECT "Customer Segment" || COALESCE(' ' || "group", '') k, COUNT(*) FROM orders GROUP BY k
SELECT GREATEST(qty, 2) g, COUNT(*) FROM orders GROUP BY g
SELECT AVG(GREATEST(profit, 0)) FROM orders
SELECT AVG(LEAST(profit, 0)) FROM orders
SELECT SUM(GREATEST("Unit Price" - 5, 0) * qty) FROM orders
SELECT COUNT(*) FROM orders WHERE qty % 2 = 1 AND "group" <> 'a'
SELECT COUNT(*) FROM orders WHERE NOT ("group" = 'a')
SELECT COUNT(*) FROM orders WHERE "group" <> 'a' OR "group" = 'a'
SELECT COUNT(*) FROM orders WHERE ("group" = 'a') IS NULL
SELECT COUNT(*) FROM orders WHERE ("group" = 'a' AND is_gift) IS NOT TRUE
SELECT COUNT(*) FROM orders WHERE "group" NOT LIKE 'a%'
SELECT COUNT(*) FROM orders WHERE COALESCE("group", '') NOT LIKE 'a%'
SELECT COUNT(*) FROM orders WHERE CASE WHEN is_gift THEN qty > 2 ELSE qty > 4 END
SELECT COUNT(*) FROM orders WHERE (is_gift AND qty > 2) OR (NOT is_gift AND qty > 4)
SELECT COUNT(*) FROM orders WHERE is_gift = (qty > 2)
SELECT COUNT(*) FROM orders WHERE is_gift <> (qty > 2)
SELECT CAST(AVG(qty) AS INTEGER), CAST(AVG(qty) AS DECIMAL(6,3)), AVG(qty)::REAL FROM orders
SELECT COUNT(*) / 7, COUNT(*) // 7, COUNT(*) % 7 FROM orders
SELECT SUM(qty) / COUNT(DISTINCT "Customer Segment") FROM orders
SELECT AVG(profit) FILTER (WHERE qty > 2) - AVG(profit) FILTER (WHERE qty <= 2) AS diff FROM orders
SELECT SUM(profit) FILTER (WHERE is_gift), SUM(profit) FILTER (WHERE NOT is_gift), SUM(profit) FILTER (WHERE is_gift IS NULL) FROM orders
SELECT "Order Date" IS NULL AS undated, COUNT(*), AVG(qty) FROM orders GROUP BY undated
SELECT COUNT(*) FROM orders WHERE "Order Date" - INTERVAL 3 MONTH >= '2022-10-01'
SELECT COUNT(*) FROM orders WHERE "Order Date" + INTERVAL '1 year' >= DATE '2023-07-01'
SELECT DATE_DIFF('quarter', DATE '2022-01-01', "Order Date") k, COUNT(*) FROM orders GROUP BY k
SELECT AVG(DATE_DIFF('quarter', DATE '2022-01-01', "Order Date")) FROM orders
SELECT AVG(YEAR("Order Date")) FROM orders
SELECT SUM(YEAR("Order Date") = 2023) FROM orders
SELECT SUM(IF(is_gift, 1, 0)), SUM(IF(is_gift, qty, 0)) FROM orders
SELECT MAX(qty), MIN(qty), MAX(qty) - MIN(qty) FROM orders
SELECT "Customer Segment", MAX(qty) FROM orders GROUP BY 1
SELECT ln(avg("Unit Price")), exp(avg(qty)), sqrt(var_pop(qty)) FROM orders
SELECT (COUNT(*) FILTER (WHERE is_gift))::DOUBLE / NULLIF(COUNT(*) FILTER (WHERE "group" = 'B'), 0) FROM orders
SELECT MEDIAN("Order Date"), MEDIAN(shipped_at) FROM orders
SELECT NULL AS x, COUNT(*) FROM orders
SELECT "Customer Segment", NULL, COUNT(*) FROM orders GROUP BY 1
SELECT COUNT(*), 'orders' AS source, DATE '2024-01-01' AS at FROM orders
SELECT COUNT(*) FROM orders WHERE qty::VARCHAR = '3'
SELECT COUNT(*) FROM orders WHERE qty = 3.0
SELECT COUNT(*) FROM orders WHERE qty < 2.5
SELECT COUNT(*) FROM orders WHERE qty > 100
SELECT COUNT(*) FROM orders WHERE qty >= -1
SELECT COUNT(*) FROM orders WHERE "Unit Price" >= 1e2
SELECT COUNT(*) FROM orders WHERE "Unit Price" < 1000
SELECT COUNT(*) FROM orders WHERE profit >= -1000
SELECT COUNT(*) FROM orders WHERE "Order Date" < '2030-01-01'
SELECT COUNT(*) FROM orders WHERE ("group", qty) <> ('a', 4)
SELECT COUNT(*) FROM orders WHERE ("group", qty) NOT IN (('a', 4), ('B', 1))
SELECT COUNT(*) FROM orders WHERE ("group", is_gift) IN (('a', NULL), ('B', true))
SELECT COUNT(*) FROM orders WHERE ("group", is_gift) = ('a', NULL)
SELECT COUNT(*) FROM orders WHERE NOT ("group", is_gift) = ('a', TRUE)
SELECT COUNT(*) FROM orders WHERE NOT ("group" IS NOT DISTINCT FROM 'a')
SELECT COUNT(*) FROM orders WHERE NOT ("group" IS DISTINCT FROM 'a')
SELECT COUNT(*) FROM orders WHERE NOT (is_gift IS NOT DISTINCT FROM NULL)
SELECT COUNT(*) FROM orders WHERE NOT (is_gift IS DISTINCT FROM NULL)
SELECT COUNT(*) FROM orders WHERE NOT (profit IS NOT DISTINCT FROM 3)
SELECT COUNT(*) FROM orders WHERE ("group" IS NOT DISTINCT FROM 'a') = is_gift
SELECT COUNT(*) FROM orders WHERE NOT ("group" IS NOT DISTINCT FROM 'a' OR is_gift)
SELECT COUNT(*) FROM orders WHERE NOT ("group" IS NULL OR is_gift IS TRUE)
SELECT COUNT(*) FROM orders WHERE NOT ("group" IN ('a', 'B') AND is_gift)
SELECT COUNT(*) FROM orders WHERE NOT (profit BETWEEN 0 AND 50 OR qty = 1)
SELECT COUNT(*) FROM orders WHERE NOT ("group" LIKE 'a%' AND qty > 2)
SELECT COUNT(*) FROM orders WHERE NOT (COALESCE("group", 'a') = 'a')
SELECT COUNT(*) FROM orders WHERE (NOT is_gift) IS NOT FALSE
SELECT COUNT(*) FROM orders WHERE NOT (NOT ("group" <> 'a'))
SELECT COUNT(*) FROM orders WHERE NOT CASE WHEN is_gift THEN qty > 2 END
SELECT SUM(CASE WHEN NOT ("group" = 'a') THEN 1 ELSE 0 END), SUM(CASE WHEN "group" = 'a' THEN 0 ELSE 1 END) FROM orders""".split(
    "\n"
)
"""Answered as DuckDB answers them on the decoded table."""

ORDERS_IN_ORDER = """SELECT "Customer Segment", COUNT(*) FROM orders GROUP BY "Customer Segment" ORDER BY 2 DESC
SELECT "customer segment" seg, AVG("Unit Price") FROM orders GROUP BY seg ORDER BY seg
SELECT YEAR("Order Date") y, QUARTER("Order Date") q, COUNT(*) FROM orders GROUP BY y, q ORDER BY y NULLS LAST, q NULLS LAST
SELECT CASE WHEN is_gift IS NULL THEN 'unknown' WHEN is_gift THEN 'gift' ELSE 'own' END k, AVG(qty), COUNT(*) FROM orders GROUP BY k ORDER BY 3 DESC
SELECT qty, COUNT(*) FROM orders WHERE qty > 0 GROUP BY qty HAVING COUNT(*) >= 100 ORDER BY qty DESC LIMIT 3
SELECT COALESCE("Customer Segment", 'All') s, COUNT(*), GROUPING("Customer Segment") g FROM orders GROUP BY GROUPING SETS (("Customer Segment"), ()) ORDER BY g, s
WITH base AS (SELECT "Customer Segment" seg, "Unit Price" * qty AS amount FROM orders), agg AS (SELECT seg, SUM(amount) s, AVG(amount) a FROM base GROUP BY seg) SELECT seg, s, a, s / (SELECT SUM(s) FROM agg) AS share FROM agg ORDER BY share DESC
SELECT 'gift' k, COUNT(*) n FROM orders WHERE is_gift UNION ALL SELECT 'not', COUNT(*) FROM orders WHERE NOT is_gift ORDER BY n DESC
SELECT DISTINCT "Customer Segment" FROM orders ORDER BY 1 DESC
SELECT "Customer Segment" AS seg, count(*) AS count FROM orders GROUP BY seg ORDER BY count DESC""".split("\n")
"""Those whose rows have one order."""

_REFUSED_ORDERS = """SELECT SIGN(profit) s, COUNT(*) FROM orders GROUP BY s => GROUP BY SIGN(profit) divides the bin [0, 50) of profit; group by the column, or at the edges of its bins
SELECT HOUR(shipped_at) < 12 AS morning, COUNT(*) FROM orders GROUP BY morning => HOUR(shipped_at) < 12 cuts the bin [2023-01-01T18:00:00, 2023-01-02T00:00:00] of shipped_at
SELECT CAST(shipped_at AS DATE) = DATE '2023-01-01', COUNT(*) FROM orders GROUP BY 1 => CAST(shipped_at AS DATE) = CAST('2023-01-01' AS DATE) cuts the bin [2023-01-01T18:00:00, 2023-01-02T00:00:00]
SELECT Customer Segment, COUNT(*) FROM orders GROUP BY 1 => unknown column "Customer"; write "Customer Segment" in double quotes
SELECT COUNT(*) FROM orders WHERE customer  segment = 'Consumer' => ; write "Customer Segment" in double quotes
SELECT COUNT(Customer Segment) FROM orders => ; write "Customer Segment" in double quotes
PIVOT orders ON qty USING COUNT(*) GROUP BY "Customer Segment" ORDER BY "Customer Segment" => the SQL cannot be read at line 1, column 71 near "ORDER BY": invalid expression / unexpected token
SELECT COUNT(DISTINCT CASE WHEN is_gift THEN "group" END) FROM orders => COUNT(DISTINCT CASE WHEN is_gift THEN "group" END) needs one column; name one, or use GROUP BY
SELECT ROUND(SUM(profit) / 1000, 1) || 'k' FROM orders => ROUND(SUM(profit) / 1000, 1) || 'k': || needs known values, not noisy ones; use COUNT, SUM, AVG and other aggr
SELECT EXTRACT(EPOCH FROM shipped_at) FROM orders GROUP BY 1 => GROUP BY EXTRACT(EPOCH FROM shipped_at) divides the bin [2023-01-01T00:00:00, 2023-01-01T06:00:00) of shipped_
SELECT COUNT(*) FROM orders WHERE qty = 2.5 => qty == 2.5: not one of the integers 0..5
SELECT COUNT(*) FROM orders WHERE qty IN (3, 7) => qty in 7: not one of the integers 0..5
SELECT "group" || COUNT(*) FROM orders GROUP BY "group" => "group" || COUNT(*): || needs known values, not noisy ones; use COUNT, SUM, AVG and other aggregates, columns """.split(
    "\n"
)
"""With the reason."""

REFUSED_TRIPS, REFUSED_ORDERS = (
    [tuple(line.rsplit(" => ", 1)) for line in lines] for lines in (_REFUSED_TRIPS, _REFUSED_ORDERS)
)
