# ruff: noqa: E501 - statements stand one to a line, as tools write them
"""What Metabase, Superset, Tableau, spreadsheets and drivers generate, and what statisticians type."""

from __future__ import annotations

TOOLS_OF_TRIPS = r"""SELECT "source"."payment_type" AS "payment_type", COUNT(*) AS "count" FROM (SELECT "trips"."payment_type" AS "payment_type", "trips"."fare" AS "fare" FROM "trips" WHERE "trips"."airport" = TRUE) AS "source" GROUP BY "source"."payment_type" ORDER BY "count" DESC, "source"."payment_type" ASC
SELECT DATE_TRUNC('month', "trips"."pickup_date") AS "pickup_date", COUNT(*) AS "count" FROM "trips" WHERE ("trips"."pickup_date" >= CAST('2021-03-01' AS DATE)) AND ("trips"."pickup_date" < CAST('2021-09-01' AS DATE)) GROUP BY DATE_TRUNC('month', "trips"."pickup_date") ORDER BY DATE_TRUNC('month', "trips"."pickup_date") ASC
SELECT FLOOR(("trips"."fare" / 10.0)) * 10.0 AS "fare", COUNT(*) AS "count" FROM "trips" GROUP BY FLOOR(("trips"."fare" / 10.0)) * 10.0 ORDER BY FLOOR(("trips"."fare" / 10.0)) * 10.0 ASC
SELECT COUNT(DISTINCT "trips"."payment_type") AS "count" FROM "trips"
SELECT "trips"."airport" AS "airport", AVG("trips"."fare") AS "avg", SUM("trips"."tips") AS "sum" FROM "trips" GROUP BY "trips"."airport" ORDER BY "trips"."airport" ASC LIMIT 2000
SELECT SUM(CASE WHEN "trips"."airport" = TRUE THEN 1 ELSE 0.0 END) / CASE WHEN COUNT(*) = 0 THEN NULL ELSE COUNT(*) END AS "Share" FROM "trips"
SELECT SUM(CASE WHEN "trips"."airport" = TRUE THEN 1 ELSE 0.0 END) / NULLIF(COUNT(*), 0) AS "Share" FROM "trips"
SELECT payment_type AS payment_type, COUNT(*) AS count FROM (SELECT * FROM trips WHERE airport) AS virtual_table GROUP BY payment_type ORDER BY count DESC LIMIT 1000
SELECT COUNT(*) AS "COUNT(*)" FROM trips HAVING COUNT(*) > 0
SELECT "trips"."payment_type" AS "payment_type", SUM(1) AS "sum:Number of Records:ok" FROM "trips" "trips" GROUP BY 1
SELECT SUM("trips"."fare") AS "sum:fare:ok" FROM "trips" "trips" HAVING (COUNT(1) > 0)
SELECT "t0"."payment_type" AS "payment_type" FROM "trips" "t0" GROUP BY 1
SELECT EXTRACT(YEAR FROM "trips"."pickup_date") AS "yr:pickup_date:ok", EXTRACT(MONTH FROM "trips"."pickup_date") AS "mn:pickup_date:ok", COUNT(1) AS "cnt" FROM "trips" GROUP BY 1, 2
SELECT CAST(EXTRACT(YEAR FROM "pickup_date") AS INTEGER) AS y, CAST(COUNT(*) AS BIGINT) AS n FROM trips GROUP BY 1
SELECT (CASE WHEN (LEFT(payment_type, 1) = 'C') THEN 'C' ELSE 'not C' END) AS grp, COUNT(1) FROM trips GROUP BY (CASE WHEN (LEFT(payment_type, 1) = 'C') THEN 'C' ELSE 'not C' END)
SELECT MIN("trips"."shift") AS lo, MAX("trips"."shift") AS hi FROM trips
SELECT * FROM (SELECT payment_type, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rk FROM trips GROUP BY payment_type) ranked WHERE rk <= 3
SELECT payment_type, n FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY payment_type) x WHERE n > (SELECT AVG(n) FROM (SELECT COUNT(*) n FROM trips GROUP BY payment_type) y)
SELECT payment_type, COUNT(*) AS n FROM trips GROUP BY payment_type QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 3
SELECT ROUND(AVG(fare)::numeric, 2) AS avg_fare FROM trips
SELECT AVG(fare) AS mean, STDDEV_SAMP(fare) AS sd, STDDEV_SAMP(fare) / SQRT(COUNT(fare)) AS se FROM trips
SELECT AVG(fare) - 1.96 * STDDEV_SAMP(fare) / SQRT(COUNT(*)) AS lo, AVG(fare) + 1.96 * STDDEV_SAMP(fare) / SQRT(COUNT(*)) AS hi FROM trips
SELECT airport, VAR_SAMP(fare) AS v, VAR_POP(fare) AS vp, COUNT(*) AS n FROM trips GROUP BY airport
SELECT COVAR_SAMP(fare, trip_total) / (STDDEV_SAMP(fare) * STDDEV_SAMP(trip_total)) AS r FROM trips
SELECT REGR_SLOPE(trip_total, fare) AS b, REGR_INTERCEPT(trip_total, fare) AS a, REGR_R2(trip_total, fare) AS r2 FROM trips
SELECT (SUM(fare * trip_total) - SUM(fare) * SUM(trip_total) / COUNT(*)) / (SUM(fare * fare) - SUM(fare) * SUM(fare) / COUNT(*)) AS slope FROM trips
SELECT SQRT(AVG(fare * fare) - AVG(fare) * AVG(fare)) AS sd FROM trips
SELECT AVG(POWER(fare - 20, 2)) AS msd FROM trips
SELECT COUNT(*) FILTER (WHERE airport)::float / COUNT(*) FILTER (WHERE NOT airport) AS odds FROM trips
WITH t AS (SELECT airport, payment_type = 'Cash' AS cash, COUNT(*) AS n FROM trips GROUP BY 1, 2) SELECT SUM(CASE WHEN airport AND cash THEN n END) * 1.0 / SUM(CASE WHEN airport THEN n END) AS p1, SUM(CASE WHEN NOT airport AND cash THEN n END) * 1.0 / SUM(CASE WHEN NOT airport THEN n END) AS p0 FROM t
WITH obs AS (SELECT airport a, payment_type p, COUNT(*) o FROM trips GROUP BY 1, 2), e AS (SELECT a, p, o, SUM(o) OVER (PARTITION BY a) * SUM(o) OVER (PARTITION BY p) * 1.0 / SUM(o) OVER () AS ex FROM obs) SELECT SUM((o - ex) * (o - ex) / ex) AS chi2 FROM e
SELECT -SUM(p * LN(p)) AS entropy FROM (SELECT COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS p FROM trips GROUP BY payment_type) q WHERE p > 0
SELECT shift, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY shift ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cum FROM trips GROUP BY shift ORDER BY shift
SELECT shift, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY shift ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS ma FROM trips GROUP BY shift ORDER BY shift
SELECT shift, n, n * 1.0 / FIRST_VALUE(n) OVER (ORDER BY shift) AS idx FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY shift) s
SELECT DATE_PART('year', pickup_date)::int AS "Year", DATE_PART('month', pickup_date)::int AS "Month", COUNT(*) AS "Trips" FROM trips GROUP BY 1, 2 ORDER BY 1, 2
SELECT COUNT(*) FROM trips WHERE pickup_date BETWEEN make_date(2021, 4, 1) AND make_date(2021, 6, 30)
SELECT COUNT(*) FROM trips WHERE NOT (airport OR payment_type = 'Cash')
SELECT COUNT(*) FROM trips WHERE payment_type IS DISTINCT FROM 'Cash'
SELECT COUNT(*) FROM trips WHERE payment_type SIMILAR TO '(Cash|Mobile)'
SELECT COUNT(*) FROM trips WHERE payment_type ~* 'card$'
SELECT COUNT(*) FROM trips WHERE payment_type ~ '^C'
SELECT COUNT(*) FROM trips WHERE payment_type ~ 'a' AND payment_type !~ 'd$'
SELECT COUNT(*) FROM trips WHERE payment_type !~* '^c'
SELECT COUNT(*) FROM trips WHERE NOT payment_type ~ 'o'
SELECT COUNT(*) FROM trips WHERE regexp_full_match(payment_type, 'C.*')
SELECT COUNT(*) FROM trips WHERE regexp_matches(payment_type, 'C|M')
SELECT COUNT(*) FROM trips WHERE (airport, payment_type) IN ((TRUE, 'Cash'), (FALSE, 'Mobile'))
SELECT airport, payment_type, COUNT(*) FROM trips GROUP BY GROUPING SETS ((airport), (payment_type), ())
SELECT COALESCE(payment_type, 'Total') AS payment_type, COUNT(*) FROM trips WHERE payment_type IS NOT NULL GROUP BY ROLLUP (payment_type)
SELECT CASE GROUPING(payment_type) WHEN 1 THEN 'all' ELSE payment_type END AS p, COUNT(*) FROM trips GROUP BY ROLLUP (payment_type)
SELECT payment_type, MAX(n) FILTER (WHERE airport) AS air, MAX(n) FILTER (WHERE NOT airport) AS city FROM (SELECT payment_type, airport, COUNT(*) n FROM trips GROUP BY 1, 2) q GROUP BY payment_type
SELECT payment_type, COUNT(*) AS n, CASE WHEN COUNT(*) > 500 THEN 'many' ELSE 'few' END AS size FROM trips GROUP BY payment_type
SELECT 'airport' AS what, COUNT(*) AS n FROM trips WHERE airport UNION ALL SELECT 'city', COUNT(*) FROM trips WHERE NOT airport
SELECT a.n - b.n AS diff FROM (SELECT COUNT(*) n FROM trips WHERE airport) a CROSS JOIN (SELECT COUNT(*) n FROM trips WHERE NOT airport) b
SELECT (SELECT COUNT(*) FROM trips WHERE airport) AS air, (SELECT COUNT(*) FROM trips WHERE NOT airport) AS city
SELECT PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY fare) - PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY fare) AS iqr FROM trips
SELECT MODE() WITHIN GROUP (ORDER BY payment_type) FROM trips
SELECT payment_type, COUNT(*) FROM trips GROUP BY ALL ORDER BY ALL
FROM trips SELECT payment_type, count(*) GROUP BY payment_type
SELECT SUM(fare) / SUM(trip_miles) AS per_mile FROM trips
SELECT AVG(CASE WHEN tips > 0 THEN 1.0 ELSE 0 END) FROM trips
SELECT AVG(airport::int) AS share FROM trips
SELECT SUM(airport::int) FROM trips
SELECT SUM(fare) FILTER (WHERE payment_type = 'Cash') / SUM(fare) AS cash_share FROM trips
SELECT GREATEST(COUNT(*) - 100, 0) AS n, LEAST(COUNT(*), 10) AS m FROM trips
SELECT EXP(AVG(LN(shift + 1))) AS gm FROM trips
SELECT CORR(shift, fare) AS r, SQRT((1 - POWER(CORR(shift, fare), 2)) / (COUNT(*) - 2)) AS se FROM trips
SELECT (AVG(fare) FILTER (WHERE airport) - AVG(fare) FILTER (WHERE NOT airport)) / STDDEV(fare) AS cohens_d FROM trips
SELECT APPROX_COUNT_DISTINCT(payment_type) FROM trips
SELECT payment_type AS "Payment Type", COUNT(*) AS "# Trips", ROUND(AVG(fare), 2) AS "Avg Fare ($)" FROM trips GROUP BY "Payment Type" ORDER BY "# Trips" DESC
SELECT COUNT(*) AS Total, COUNT(*) AS "Total People" FROM trips
SELECT COUNT(1) FROM trips WHERE 1 = 1
SELECT COUNT(*) FROM trips WHERE 1 = 0
SELECT COUNT(*) FROM trips WHERE TRUE AND payment_type LIKE 'C%' ESCAPE '!'
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY CASE WHEN payment_type = 'Cash' THEN 0 ELSE 1 END, payment_type NULLS LAST
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY COUNT(*) FILTER (WHERE airport) DESC
SELECT DISTINCT ON (airport) airport, payment_type, COUNT(*) n FROM trips GROUP BY 1, 2 ORDER BY airport, n DESC
WITH g AS (SELECT airport, payment_type, COUNT(*) n FROM trips GROUP BY 1, 2) SELECT DISTINCT ON (airport) airport, n FROM g ORDER BY airport, n
SELECT DATE_TRUNC('month', pickup_date) AS __timestamp, payment_type AS payment_type, COUNT(*) AS count FROM trips JOIN (SELECT payment_type AS payment_type__, COUNT(*) AS mme_inner__ FROM trips GROUP BY payment_type ORDER BY mme_inner__ DESC LIMIT 3) AS series_limit ON payment_type = payment_type__ GROUP BY DATE_TRUNC('month', pickup_date), payment_type
SELECT COUNT(*) FROM trips t INNER JOIN (SELECT shift AS s, AVG(fare) a FROM trips GROUP BY 1 HAVING COUNT(*) > 150) q ON (t.shift = q.s) WHERE airport
SELECT COUNT(*) FROM trips WHERE shift = ANY(ARRAY[1, 2, 3]::int[])
SELECT COUNT(*) FROM trips WHERE payment_type = ANY(ARRAY['Cash', 'Mobile'])""".splitlines()

TOOLS_OF_ORDERS = r"""SELECT "orders"."Customer Segment" AS "Customer Segment", SUM("orders"."profit") AS "sum:profit:ok" FROM "orders" "orders" GROUP BY 1
SELECT DATE_TRUNC('QUARTER', CAST("orders"."Order Date" AS DATE)) AS "tqr:Order Date:ok", SUM("orders"."qty") AS "sum:qty:ok" FROM "orders" GROUP BY 1
SELECT SUM(CASE WHEN ("orders"."Customer Segment" = 'Consumer') THEN "orders"."qty" ELSE NULL END) AS "Calculation_1" FROM "orders"
SELECT ("orders"."Unit Price" >= 10) AS "expensive", COUNT(*) AS "n" FROM "orders" GROUP BY ("orders"."Unit Price" >= 10)
SELECT COUNT(DISTINCT "orders"."Customer Segment") AS "ctd:Customer Segment:ok" FROM "orders"
SELECT "qty" AS "qty", "is_gift" AS "is_gift", SUM(1) AS "cnt" FROM "orders" WHERE (("orders"."is_gift" IN (TRUE)) AND (NOT ("orders"."qty" IN (0)))) GROUP BY 1, 2
SELECT AVG(CAST("qty" AS DOUBLE PRECISION)) AS "avg_qty", SUM(CAST("qty" AS REAL)) AS s FROM "orders"
SELECT "group", COUNT(*) AS "count" FROM "orders" WHERE "group" IS NOT NULL AND "group" <> '' GROUP BY "group"
SELECT "group" AS g, COUNT(*) AS "n", 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS "% of total" FROM orders GROUP BY "group" ORDER BY "% of total" DESC
SELECT IFNULL("group", '(blank)') AS "Row Labels", SUM("qty") AS "Sum of qty" FROM orders GROUP BY IFNULL("group", '(blank)') ORDER BY 1
SELECT CASE WHEN is_gift IS NULL THEN 'missing' WHEN is_gift THEN 'gift' ELSE 'not a gift' END AS gift, AVG(qty) AS mean_qty, VARIANCE(qty) AS var_qty FROM orders GROUP BY 1
SELECT EXTRACT(YEAR FROM "Order Date") || '-Q' || EXTRACT(QUARTER FROM "Order Date") AS "period", COUNT(*) FROM orders GROUP BY 1
SELECT YEAR("Order Date") AS y, QUARTER("Order Date") AS q, SUM(qty) AS s, SUM(SUM(qty)) OVER (PARTITION BY YEAR("Order Date") ORDER BY QUARTER("Order Date")) AS ytd FROM orders GROUP BY 1, 2
SELECT s.seg, s.n, t.total, s.n * 1.0 / t.total AS share FROM (SELECT "Customer Segment" AS seg, COUNT(*) AS n FROM orders GROUP BY 1) s, (SELECT COUNT(*) AS total FROM orders) t
SELECT seg, n, RANK() OVER (ORDER BY n DESC) AS rnk, n - LAG(n) OVER (ORDER BY n DESC) AS gap FROM (SELECT "Customer Segment" seg, COUNT(*) n FROM orders GROUP BY 1)
SELECT "Customer Segment", COUNT(*) FILTER (WHERE qty = 0) AS q0, COUNT(*) FILTER (WHERE qty BETWEEN 1 AND 2) AS q12, COUNT(*) FILTER (WHERE qty > 2) AS q3 FROM orders GROUP BY ROLLUP ("Customer Segment")
SELECT * FROM (SELECT "Customer Segment" AS seg, qty FROM orders) PIVOT (COUNT(*) FOR qty IN (0, 1, 2))
SELECT qty, COUNT(*) AS n, 1.0 * SUM(COUNT(*)) OVER (ORDER BY qty) / SUM(COUNT(*)) OVER () AS ecdf FROM orders GROUP BY qty ORDER BY qty
SELECT SUM(qty * n) * 1.0 / SUM(n) AS weighted FROM (SELECT qty, COUNT(*) AS n FROM orders GROUP BY qty)
SELECT SUM(n * (qty - 2.5) * (qty - 2.5)) / SUM(n) AS ms FROM (SELECT qty, COUNT(*) AS n FROM orders GROUP BY qty) d
SELECT MAX(n) - MIN(n) AS spread, AVG(n) AS mean, STDDEV_POP(n) AS sd FROM (SELECT "group", COUNT(*) AS n FROM orders GROUP BY "group") d
SELECT "group", n, (n - AVG(n) OVER ()) / STDDEV_POP(n) OVER () AS z FROM (SELECT "group", COUNT(*) AS n FROM orders GROUP BY "group") d
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY qty) AS med, MODE(qty) AS mo FROM orders
SELECT COUNT(*) AS n FROM orders WHERE "Order Date" >= DATE '2022-04-01' AND "Order Date" < DATE '2022-04-01' + INTERVAL 3 MONTH
SELECT COUNT(*) FROM orders WHERE "Unit Price" NOT BETWEEN 5 AND 10 AND COALESCE(is_gift, FALSE)
SELECT COUNT(*) FROM orders o WHERE o."group" LIKE 'it''s%' OR o."group" = 'ß ok'
SELECT qty % 2 = 1 AS odd, COUNT(*), SUM(profit) FROM orders WHERE profit IS NOT NULL GROUP BY qty % 2 = 1
SELECT COALESCE(SUM(profit), 0) AS p, COALESCE(SUM(profit) / NULLIF(SUM(qty), 0), 0) AS per_item FROM orders
SELECT "Customer Segment", SUM(profit) AS p FROM orders GROUP BY 1 HAVING SUM(profit) > 0 OR COUNT(*) > 1 ORDER BY p DESC NULLS LAST FETCH FIRST 2 ROWS ONLY
SELECT 1 AS one, COUNT(*) AS n, 'x' AS label FROM orders
SELECT LN(COUNT(*) FILTER (WHERE is_gift) * 1.0 / COUNT(*) FILTER (WHERE NOT is_gift)) AS logit FROM orders
SELECT EXP(LN(2) * AVG(qty)) AS e, ROUND(AVG(qty), 0) AS r, CEIL(COUNT(*) / 7) AS c FROM orders
SELECT CORR(qty, profit), COVAR_POP(qty, profit), REGR_COUNT(profit, qty), REGR_AVGX(profit, qty) FROM orders
SELECT ABS(COUNT(*) FILTER (WHERE qty > 2) - COUNT(*) FILTER (WHERE qty <= 2)) AS d, SIGN(COUNT(*) - 5) AS s FROM orders
SELECT seg, share, SUM(share) OVER (ORDER BY share DESC, seg) AS cumulative FROM (SELECT "Customer Segment" AS seg, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM orders) AS share FROM orders GROUP BY 1) p ORDER BY share DESC
SELECT COUNT(*) AS "Total", COUNT(profit) AS "Valid", COUNT(*) - COUNT(profit) AS "Missing", ROUND(100.0 * COUNT(profit) / COUNT(*), 4) AS "Valid %" FROM orders
SELECT shipped_at::date AS d, COUNT(*) FROM orders GROUP BY 1
SELECT SUM(p * p) AS herfindahl FROM (SELECT COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS p FROM orders GROUP BY "group") t
SELECT a.seg, a.n AS gifts, b.n AS others FROM (SELECT "Customer Segment" seg, COUNT(*) n FROM orders WHERE is_gift GROUP BY 1) a LEFT JOIN (SELECT "Customer Segment" seg, COUNT(*) n FROM orders WHERE NOT is_gift GROUP BY 1) b USING (seg)
SELECT "Customer Segment" FROM orders GROUP BY "Customer Segment" ORDER BY COUNT(*) DESC LIMIT 1
SELECT COUNT(*) FROM (SELECT "Customer Segment", qty FROM orders GROUP BY 1, 2 HAVING COUNT(*) >= 100) t
SELECT MIN(n), MAX(n), MEDIAN(n) FROM (SELECT COUNT(*) n FROM orders GROUP BY "Customer Segment", qty) t
SELECT COUNT(*) FROM orders WHERE "group" <> ''
SELECT COUNT(*) FROM orders WHERE "group" = '' OR "group" IS NULL
SELECT COUNT(*) FROM orders WHERE NOT ("group" = '')
SELECT COUNT(*) FROM orders WHERE NOT ("group" <> '')""".splitlines()

MEANT = {
    "SELECT COUNT(*) FROM trips WHERE payment_type <> ALL(ARRAY['Cash', 'Mobile'])": "SELECT COUNT(*) FROM trips WHERE payment_type NOT IN ('Cash','Mobile')",
    "SELECT COUNT(*) FROM trips WHERE payment_type = ANY('{Cash,\"Credit Card\"}'::text[])": "SELECT COUNT(*) FROM trips WHERE payment_type IN ('Cash','Credit Card')",
    "SELECT COUNT(*) FROM trips WHERE payment_type = ANY('{Cash}')": "SELECT COUNT(*) FROM trips WHERE payment_type IN ('Cash')",
    "SELECT COUNT(*) FROM trips WHERE payment_type = ANY(ARRAY['Cash'])": "SELECT COUNT(*) FROM trips WHERE payment_type IN ('Cash')",
    "SELECT COUNT(trips.*) FROM trips": "SELECT COUNT(*) FROM trips",
    "SELECT airport, COUNT(t.*) AS n FROM trips t GROUP BY airport": "SELECT airport, COUNT(*) FROM trips GROUP BY airport",
    "SELECT COUNT(*) FROM public.trips": "SELECT COUNT(*) FROM trips",
    "SELECT public.trips.airport, COUNT(*) FROM public.trips GROUP BY 1": "SELECT airport, COUNT(*) FROM trips GROUP BY 1",
    "SELECT TOP 3 payment_type, COUNT(*) AS n FROM trips GROUP BY payment_type ORDER BY n DESC, payment_type": "SELECT payment_type, COUNT(*) AS n FROM trips GROUP BY payment_type ORDER BY n DESC, payment_type LIMIT 3",
    "SELECT width_bucket(fare, 0, 60, 6) AS b, COUNT(*) FROM trips GROUP BY b ORDER BY b": "SELECT CASE WHEN fare<10 THEN 1 WHEN fare<20 THEN 2 WHEN fare<30 THEN 3 WHEN fare<40 THEN 4 WHEN fare<50 THEN 5 ELSE 6 END b, COUNT(*) FROM trips GROUP BY b",
    "SELECT SUM(n) FROM (SELECT TOP (2) shift, COUNT(*) n FROM trips GROUP BY shift ORDER BY 2 DESC) x": "SELECT SUM(n) FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY shift ORDER BY 2 DESC LIMIT 2) x",
    "SELECT DISTINCT ON (1) airport, payment_type, COUNT(*) n FROM trips GROUP BY 1, 2 ORDER BY 1, 3 DESC": "SELECT DISTINCT ON (airport) airport, payment_type, COUNT(*) n FROM trips GROUP BY 1, 2 ORDER BY airport, n DESC",
    "SELECT to_char(pickup_date, 'YYYY-MM') AS ym, COUNT(*) FROM trips GROUP BY to_char(pickup_date, 'YYYY-MM')": "SELECT strftime(pickup_date, '%Y-%m'), COUNT(*) FROM trips GROUP BY 1",
    "SELECT to_char(pickup_date, 'Mon YYYY') AS ym, COUNT(*) FROM trips GROUP BY 1": "SELECT strftime(pickup_date, '%b %Y'), COUNT(*) FROM trips GROUP BY 1",
}
"""Statements that DuckDB does not read, or reads otherwise than PostgreSQL, with others of the same meaning."""

MORE_OF_TRIPS = r"""SELECT BOOL_OR(airport) FROM trips
SELECT shift, BOOL_AND(airport) FROM trips GROUP BY shift
SELECT BOOL_OR(fare > 50) AS any_big FROM trips
SELECT SKEWNESS(fare) FROM trips
SELECT KURTOSIS(shift) FROM trips
SELECT airport, SKEWNESS(shift) FROM trips GROUP BY airport
SELECT payment_type, COUNT(*) FILTER (WHERE airport) AS a, COUNT(*) FILTER (WHERE NOT airport) AS b, ROUND(COUNT(*) FILTER (WHERE airport)::numeric / NULLIF(COUNT(*), 0) * 100, 2) AS pct FROM trips GROUP BY payment_type
SELECT payment_type, COUNT(*) AS n FROM trips GROUP BY payment_type QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 3
SELECT payment_type, shift, COUNT(*) AS n FROM trips GROUP BY 1, 2 QUALIFY RANK() OVER (PARTITION BY payment_type ORDER BY n DESC) = 1
SELECT shift, COUNT(*) n, LAG(COUNT(*)) OVER (ORDER BY shift) AS prev, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY shift) AS diff FROM trips GROUP BY shift
SELECT shift, n, NTILE(4) OVER (ORDER BY n) FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY shift) t
SELECT shift, COUNT(*) n, LEAD(COUNT(*), 1, 0) OVER (ORDER BY shift) FROM trips GROUP BY shift
SELECT shift, AVG(COUNT(*)) OVER (ORDER BY shift ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM trips GROUP BY shift
SELECT payment_type, COUNT(*) n FROM trips GROUP BY payment_type HAVING COUNT(*) > (SELECT AVG(c) FROM (SELECT COUNT(*) c FROM trips GROUP BY payment_type) x)
SELECT payment_type FROM trips GROUP BY payment_type HAVING SUM(CASE WHEN airport THEN 1 ELSE 0 END) * 1.0 / COUNT(*) > 0.4
SELECT DATE_TRUNC('month', pickup_date) AS m, COUNT(*) FROM trips WHERE pickup_date >= DATE '2021-12-31' - INTERVAL '6 months' GROUP BY 1
SELECT COUNT(*) FROM trips WHERE pickup_date BETWEEN DATE '2021-03-01' AND DATE '2021-03-01' + INTERVAL 3 MONTH - INTERVAL 1 DAY
SELECT EXTRACT(MONTH FROM pickup_date) AS mon, AVG(shift) FROM trips GROUP BY mon
SELECT MONTHNAME(pickup_date) m, COUNT(*) FROM trips GROUP BY m
SELECT CONCAT('Q', QUARTER(pickup_date)) AS q, COUNT(*) FROM trips GROUP BY q
SELECT strftime(pickup_date, '%Y-%m') AS ym, COUNT(*) FROM trips GROUP BY ym ORDER BY ym
SELECT CASE WHEN shift < 7 THEN 'morning' WHEN shift < 14 THEN 'day' ELSE 'night' END AS part, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM trips GROUP BY part
SELECT GREATEST(COUNT(*) FILTER (WHERE airport), COUNT(*) FILTER (WHERE NOT airport)) FROM trips
SELECT LEAST(SUM(shift), COUNT(*)) FROM trips
SELECT x.airport, COUNT(*) FROM trips AS x WHERE x.payment_type IN ('Cash', 'Mobile') GROUP BY x.airport
SELECT COUNT(*) FROM trips WHERE payment_type IN (VALUES ('Cash'), ('Mobile'))
WITH k(p) AS (VALUES ('Cash'), ('Mobile')) SELECT COUNT(*) FROM trips WHERE payment_type IN (SELECT p FROM k)
WITH s AS (SELECT UNNEST(GENERATE_SERIES(0, 3)) AS shift) SELECT s.shift, COALESCE(t.n, 0) FROM s LEFT JOIN (SELECT shift, COUNT(*) n FROM trips GROUP BY shift) t ON s.shift = t.shift
SELECT g.i, COALESCE(t.n, 0) AS n FROM generate_series(0, 5) AS g(i) LEFT JOIN (SELECT shift, COUNT(*) n FROM trips GROUP BY shift) t ON t.shift = g.i ORDER BY g.i
SELECT a.payment_type, a.n, b.n FROM (SELECT payment_type, COUNT(*) n FROM trips WHERE airport GROUP BY 1) a JOIN (SELECT payment_type, COUNT(*) n FROM trips WHERE NOT airport GROUP BY 1) b ON a.payment_type = b.payment_type
SELECT COUNT(*), AVG(shift), STDDEV(shift), STDDEV(shift) / AVG(shift) AS cv FROM trips
SELECT airport, ROUND(AVG(shift)::numeric, 2), MAX(shift) - MIN(shift) AS spread FROM trips GROUP BY airport
SELECT PERCENT_RANK() OVER (ORDER BY COUNT(*)) pr, payment_type FROM trips GROUP BY payment_type
SELECT payment_type, CUME_DIST() OVER (ORDER BY COUNT(*)) FROM trips GROUP BY payment_type
SELECT payment_type, COUNT(*) n, FIRST_VALUE(payment_type) OVER (ORDER BY COUNT(*) DESC) AS top FROM trips GROUP BY payment_type
SELECT COUNT(*) FROM trips WHERE airport IS TRUE AND payment_type IS NOT NULL AND NOT (shift BETWEEN 3 AND 5)
SELECT SUM(IF(airport, 1, 0)) AS a, SUM(IF(airport, 0, 1)) AS b FROM trips
SELECT COUNT(CASE WHEN shift % 2 = 0 THEN 1 END) AS even_shifts FROM trips
SELECT COUNT(DISTINCT payment_type) AS kinds, COUNT(DISTINCT shift) AS shifts FROM trips
SELECT payment_type, COUNT(*) FROM trips GROUP BY ALL ORDER BY ALL
SELECT AVG(shift) FILTER (WHERE airport) - AVG(shift) FILTER (WHERE NOT airport) AS gap FROM trips
SELECT UPPER(LEFT(payment_type, 2)) AS code, COUNT(*) FROM trips GROUP BY 1
SELECT COALESCE(payment_type, 'n/a') AS p, COUNT(*) FROM trips GROUP BY COALESCE(payment_type, 'n/a')
SELECT payment_type, airport, COUNT(*) FROM trips GROUP BY CUBE (payment_type, airport)
SELECT GROUPING(payment_type) AS g, payment_type, COUNT(*) FROM trips GROUP BY ROLLUP (payment_type)
SELECT shift / 7 AS week_part, COUNT(*) FROM trips GROUP BY shift / 7
SELECT FLOOR(shift / 7) AS b, COUNT(*) FROM trips GROUP BY b
SELECT CAST(FLOOR(fare / 20) * 20 AS INTEGER) AS bin, COUNT(*) FROM trips GROUP BY bin
SELECT VAR_POP(shift), SQRT(VAR_POP(shift)) FROM trips
SELECT AVG(shift * shift) - AVG(shift) * AVG(shift) AS var FROM trips
SELECT CORR(shift, pickup_area) FROM trips
SELECT EXP(AVG(LN(shift + 1))) AS geo FROM trips
SELECT COUNT(*) FILTER (WHERE shift >= 10) > COUNT(*) FILTER (WHERE shift < 10) AS later FROM trips
SELECT 'all' AS label, COUNT(*) AS n FROM trips UNION ALL SELECT 'airport', COUNT(*) FROM trips WHERE airport ORDER BY n
SELECT payment_type, COUNT(*) FROM trips WHERE payment_type LIKE 'C%' OR payment_type LIKE '%e' GROUP BY payment_type
SELECT DAYNAME(DATE '2021-05-01') AS d, COUNT(*) FROM trips
SELECT APPROX_QUANTILE(shift, 0.25), APPROX_QUANTILE(shift, 0.75) FROM trips
SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY shift DESC) FROM trips
SELECT MAX(n) - MIN(n) FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY payment_type) t
SELECT payment_type, n, n * 100.0 / total AS pct FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY 1) a CROSS JOIN (SELECT COUNT(*) total FROM trips) b
SELECT SUM(shift) FILTER (WHERE airport) / NULLIF(SUM(shift), 0) AS share FROM trips
SELECT ARG_MAX(payment_type, n) FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY payment_type) t
SELECT MAX_BY(payment_type, n) FROM (SELECT payment_type, COUNT(*) n FROM trips GROUP BY payment_type) t
SELECT shift, COUNT(*) FROM trips GROUP BY shift HAVING COUNT(*) BETWEEN 100 AND 300 ORDER BY shift LIMIT 5 OFFSET 2
SELECT SUM(CASE payment_type WHEN 'Cash' THEN 1 WHEN 'Mobile' THEN 2 ELSE 0 END) FROM trips
SELECT ROUND(AVG(CASE WHEN payment_type = 'Cash' THEN 100.0 ELSE 0.0 END), 1) AS cash_pct FROM trips
SELECT CASE WHEN GROUPING(airport) = 1 THEN 'Total' ELSE CAST(airport AS VARCHAR) END AS a, COUNT(*) FROM trips GROUP BY ROLLUP(airport)
SELECT DATE_DIFF('day', DATE '2021-01-01', DATE '2021-02-01') * COUNT(*) FROM trips
SELECT AVG(n) AS avg_per_month FROM (SELECT DATE_TRUNC('month', pickup_date) m, COUNT(*) n FROM trips GROUP BY 1) x
SELECT m, n, n - LAG(n, 1) OVER (ORDER BY m) AS mom, ROUND(100.0 * (n - LAG(n) OVER (ORDER BY m)) / LAG(n) OVER (ORDER BY m), 1) AS growth FROM (SELECT EXTRACT(MONTH FROM pickup_date) m, COUNT(*) n FROM trips GROUP BY 1) x
SELECT "_"."payment_type", COUNT(1) AS "a0" FROM (SELECT "payment_type", "airport" FROM "trips") "_" WHERE "_"."airport" = TRUE GROUP BY "_"."payment_type"
SELECT trips.payment_type, COUNT(*) AS c FROM trips AS trips WHERE ((( trips.pickup_date ) >= ((DATE '2021-02-01')) AND ( trips.pickup_date ) < ((DATE '2021-05-01')))) GROUP BY 1 ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY
SELECT CAST(DATE_TRUNC('month', "trips"."pickup_date") AS DATE) AS m, COUNT(*) FROM trips GROUP BY CAST(DATE_TRUNC('month', "trips"."pickup_date") AS DATE)
SELECT (EXTRACT(YEAR FROM pickup_date) * 100 + EXTRACT(MONTH FROM pickup_date)) AS ym, COUNT(*) FROM trips GROUP BY 1
SELECT EXTRACT(YEAR FROM pickup_date) || '-' || EXTRACT(MONTH FROM pickup_date) AS ym, COUNT(*) FROM trips GROUP BY 1
SELECT payment_type, COUNT(*) AS n, DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM trips WHERE payment_type IS NOT NULL GROUP BY payment_type ORDER BY r FETCH FIRST 3 ROWS ONLY
SELECT airport, SUM(shift) OVER () FROM (SELECT airport, SUM(shift) AS shift FROM trips GROUP BY airport) q
SELECT COUNT(*) AS n, SUM(CASE WHEN airport THEN 1 END) AS yes, SUM(CASE WHEN airport THEN 0 ELSE 1 END) AS no, AVG(CASE WHEN airport THEN 1.0 ELSE 0.0 END) rate FROM trips
WITH base AS (SELECT payment_type, airport, COUNT(*) AS n FROM trips GROUP BY 1, 2), tot AS (SELECT payment_type, SUM(n) AS t FROM base GROUP BY 1) SELECT b.payment_type, b.airport, b.n / t.t AS p FROM base b JOIN tot t USING (payment_type)
WITH m AS (SELECT AVG(shift) a, STDDEV(shift) s FROM trips) SELECT a - 2 * s AS lo, a + 2 * s AS hi FROM m
SELECT payment_type, AVG(shift) - (SELECT AVG(shift) FROM trips) AS dev FROM trips GROUP BY payment_type
SELECT payment_type, AVG(shift) - AVG(AVG(shift)) OVER () AS dev FROM trips GROUP BY payment_type
SELECT SUM(POWER(shift - 10, 2)) / (COUNT(*) - 1) FROM trips
SELECT * FROM (SELECT payment_type, airport, COUNT(*) AS n FROM trips GROUP BY 1, 2) PIVOT (SUM(n) FOR airport IN (true, false))
SELECT payment_type, MAX(CASE WHEN airport THEN n END) AS yes, MAX(CASE WHEN NOT airport THEN n END) AS no FROM (SELECT payment_type, airport, COUNT(*) n FROM trips GROUP BY 1, 2) x GROUP BY payment_type
SELECT airport, n, LAST_VALUE(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS biggest FROM (SELECT airport, COUNT(*) n FROM trips GROUP BY 1) x
SELECT shift, n, NTH_VALUE(n, 2) OVER (ORDER BY shift ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY 1) x
SELECT shift, SUM(n) OVER w AS run, AVG(n) OVER w AS mean FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY 1) x WINDOW w AS (ORDER BY shift)
SELECT shift, n, n - AVG(n) OVER (ORDER BY shift ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) FROM (SELECT shift, COUNT(*) n FROM trips GROUP BY 1) x
SELECT COUNT(*) FROM trips t WHERE shift > (SELECT AVG(shift) FROM trips WHERE airport)
SELECT COUNT(*) FROM trips WHERE shift = (SELECT MAX(shift) FROM trips)
SELECT COUNT(*) FROM trips WHERE MOD(shift, 7) IN (5, 6)
SELECT CASE MOD(shift, 7) WHEN 0 THEN 'Mon' WHEN 1 THEN 'Tue' ELSE 'Other' END AS d, COUNT(*) FROM trips GROUP BY d
SELECT COUNT(*) FROM trips WHERE LOWER(TRIM(payment_type)) = 'cash'
SELECT REPLACE(payment_type, ' ', '_') AS k, COUNT(*) FROM trips GROUP BY k
SELECT LENGTH(payment_type) AS len, COUNT(*) FROM trips GROUP BY len HAVING len IS NOT NULL
SELECT COUNT(*) FROM trips WHERE payment_type SIMILAR TO '(Cash|Mobile)'
SELECT COUNT(*) FROM trips WHERE REGEXP_MATCHES(payment_type, 'C.*d')
SELECT COUNT(*) FROM trips WHERE payment_type NOT ILIKE '%card%' AND payment_type IS NOT NULL
SELECT LEN(payment_type) AS l, COUNT(*) FROM trips GROUP BY 1
SELECT COUNT(*) FROM trips WHERE pickup_date >= '2021-01-01'::date AND pickup_date < ('2021-01-01'::date + INTERVAL '1 month')
SELECT COUNT(*) FROM trips WHERE DATE_PART('month', pickup_date) IN (6, 7, 8)
SELECT LAST_DAY(pickup_date) AS eom, COUNT(*) FROM trips GROUP BY 1
SELECT DATE_TRUNC('quarter', pickup_date) AS q, COUNT(*) FROM trips GROUP BY 1
SELECT CEIL(AVG(shift)), TRUNC(AVG(shift)), ROUND(AVG(shift), -1), SIGN(AVG(shift) - 5) FROM trips
SELECT LOG10(COUNT(*)), LN(COUNT(*)), LOG(2, COUNT(*)), CBRT(COUNT(*)) FROM trips
SELECT CAST(AVG(shift) AS DECIMAL(10, 2)) FROM trips
SELECT AVG(shift)::NUMERIC(10, 1) AS a FROM trips
SELECT COUNT(*)::float / 1000 AS thousands FROM trips
SELECT COUNT(*) / 3 AS third FROM trips
SELECT 1.0 * COUNT(*) FILTER (WHERE airport) / COUNT(*) FILTER (WHERE NOT airport) AS odds FROM trips
SELECT LN((1.0 * COUNT(*) FILTER (WHERE airport) / COUNT(*)) / (1 - 1.0 * COUNT(*) FILTER (WHERE airport) / COUNT(*))) AS logit FROM trips
SELECT payment_type, COUNT(*) FROM trips WHERE (payment_type, airport) IN (('Cash', true), ('Mobile', false)) GROUP BY 1
SELECT COUNT(*) FROM trips WHERE shift <> ALL (ARRAY[1, 2, 3])
SELECT COUNT(*) AS n FROM trips HAVING COUNT(*) > 10
SELECT 1 AS one, COUNT(*) FROM trips GROUP BY one
SELECT DISTINCT payment_type, airport FROM trips
SELECT COUNT(*) FROM (SELECT DISTINCT payment_type, airport FROM trips) d
SELECT payment_type, COUNT(*) FROM trips GROUP BY payment_type ORDER BY payment_type NULLS FIRST
SELECT payment_type AS "Payment Type", COUNT(*) AS "# Trips", ROUND(COUNT(*) * 100.0 / SUM(COUNT(*)) OVER(), 2) AS "% of total" FROM trips GROUP BY "Payment Type"
SELECT airport, COUNT(*) n, SUM(COUNT(*)) OVER (PARTITION BY airport) FROM trips GROUP BY airport
SELECT payment_type, airport, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY payment_type) AS row_pct FROM trips GROUP BY 1, 2
SELECT payment_type, COUNT(*) n, COUNT(*) > AVG(COUNT(*)) OVER () AS above FROM trips GROUP BY payment_type
SELECT REGR_SLOPE(shift, pickup_area), REGR_INTERCEPT(shift, pickup_area), REGR_R2(shift, pickup_area) FROM trips
SELECT COVAR_SAMP(shift, pickup_area) / VAR_SAMP(pickup_area) FROM trips
SELECT SUM(shift) * 1.0 / COUNT(DISTINCT payment_type) FROM trips
SELECT payment_type, SUM(fare) FROM trips GROUP BY 1
SELECT COUNT(*) FROM trips WHERE fare BETWEEN 10 AND 30
SELECT COUNT_IF(shift > 10), COUNTIF(airport) FROM trips
SELECT SUM(airport::int), AVG(airport::int) FROM trips
SELECT payment_type FROM trips GROUP BY 1 ORDER BY AVG(shift) DESC LIMIT 1
SELECT COUNT(*) FROM trips WHERE NOT airport AND (shift < 5 OR shift > 15) AND payment_type IN ('Cash', 'Mobile', 'Prcard')
SELECT TRUE AS is_total, NULL AS payment_type, COUNT(*) FROM trips UNION ALL SELECT FALSE, payment_type, COUNT(*) FROM trips GROUP BY payment_type
SELECT AVG(x) FROM (SELECT shift AS x FROM trips WHERE airport) y
SELECT y.p, AVG(y.x) FROM (SELECT payment_type AS p, shift * 2 AS x FROM trips) y GROUP BY y.p
SELECT MIN(shift) FILTER (WHERE airport) FROM trips
SELECT TRY_CAST(payment_type AS INTEGER) AS x, COUNT(*) FROM trips GROUP BY 1
SELECT BOOL_OR(airport), BOOL_AND(airport) FROM trips WHERE shift > 3
SELECT COUNT(*) FROM trips WHERE (payment_type, airport) IN (VALUES ('Cash', true), ('Mobile', false))
SELECT r.i, t.n FROM range(3) AS r(i) JOIN (SELECT shift, COUNT(*) n FROM trips GROUP BY shift) t ON t.shift = r.i
SELECT COUNT(*) FROM trips WHERE pickup_date >= DATE '2021-01-01' + INTERVAL '2 months'
SELECT 'all' AS label, airport, COUNT(*) FROM trips GROUP BY label, airport
SELECT SKEWNESS(fare), KURTOSIS(fare), KURTOSIS_POP(fare) FROM trips
SELECT payment_type, SKEWNESS(shift), KURTOSIS(shift) FROM trips GROUP BY payment_type
SELECT SKEWNESS(shift) FILTER (WHERE airport) FROM trips
SELECT SKEWNESS(shift * 2 + 1) FROM trips
SELECT airport, BOOL_OR(shift > 19) FROM trips GROUP BY airport HAVING BOOL_OR(shift > 19)
SELECT BOOL_AND(shift < 30) AND BOOL_OR(shift < 2) FROM trips
SELECT COUNT(*) FROM trips WHERE EXISTS (SELECT 1 FROM trips WHERE airport)
WITH x AS (SELECT airport, payment_type, COUNT(*) n FROM trips GROUP BY 1, 2), y AS (SELECT airport, MAX(n) top FROM x GROUP BY 1) SELECT x.airport, x.payment_type, x.n FROM x JOIN y ON x.airport = y.airport AND x.n = y.top
SELECT pickup_area, COUNT(*) FROM trips WHERE pickup_area > ALL (SELECT 1) GROUP BY 1""".splitlines()

DATES_AND_TIMES = r"""SELECT COUNT(*) FROM trips WHERE DATE_TRUNC('month', pickup_date) IN (SELECT m FROM (VALUES (DATE '2021-01-01')) v(m))
SELECT m, n FROM (SELECT DATE_TRUNC('month', pickup_date) AS m, COUNT(*) n FROM trips GROUP BY 1) WHERE m IN (SELECT x FROM (VALUES (DATE '2021-02-01')) v(x))
SELECT v.d, x.n FROM (VALUES (DATE '2021-02-01'), (DATE '2021-02-02')) v(d) LEFT JOIN (SELECT DATE_TRUNC('month', pickup_date) AS m, COUNT(*) n FROM trips GROUP BY 1) x ON v.d = x.m""".splitlines()
"""A date is a timestamp at midnight: joins once found no pair."""

MORE_OF_ORDERS = r"""SELECT "Customer Segment", SUM(qty) AS total_qty, RANK() OVER (ORDER BY SUM(qty) DESC) AS rnk FROM orders GROUP BY "Customer Segment"
SELECT EXTRACT(YEAR FROM "Order Date") AS y, EXTRACT(QUARTER FROM "Order Date") AS q, COUNT(*) FROM orders GROUP BY 1, 2 ORDER BY 1, 2
SELECT COUNT(*) FILTER (WHERE "Order Date" IS NULL) * 100.0 / COUNT(*) AS null_pct FROM orders
SELECT BOOL_OR(is_gift), BOOL_AND(is_gift) FROM orders
SELECT "group", AVG(qty), MEDIAN(qty) FROM orders WHERE "group" IS NOT NULL GROUP BY "group" HAVING AVG(qty) > 1
SELECT CASE WHEN profit < 0 THEN 'loss' WHEN profit >= 0 THEN 'gain' ELSE 'unknown' END AS outcome, COUNT(*) FROM orders GROUP BY outcome
SELECT SUM(qty * qty) / SUM(qty) FROM orders
SELECT COVAR_POP(qty, qty), VAR_POP(qty) FROM orders
SELECT SKEWNESS(qty), KURTOSIS(qty), KURTOSIS_POP(qty) FROM orders
SELECT "Customer Segment", is_gift, COUNT(*) FROM orders GROUP BY GROUPING SETS (("Customer Segment"), (is_gift), ())
SELECT YEAR("Order Date") AS y, SUM(qty) AS q, SUM(SUM(qty)) OVER (ORDER BY YEAR("Order Date")) AS running FROM orders WHERE "Order Date" IS NOT NULL GROUP BY y
SELECT COUNT(*) FROM orders WHERE "Order Date" >= '2022-07-01' AND "Order Date" < '2023-01-01'
SELECT COUNT(*) FROM orders WHERE "Order Date" >= DATE '2022-07-01' - INTERVAL '1 quarter'
SELECT AVG(CAST(is_gift AS INTEGER)) AS gift_rate FROM orders
SELECT is_gift::int AS g, COUNT(*) FROM orders GROUP BY 1
SELECT "Customer Segment" AS seg, COUNT(*) AS n FROM orders WHERE qty > 0 GROUP BY seg ORDER BY CASE seg WHEN 'Consumer' THEN 1 ELSE 2 END, seg
SELECT qty, COUNT(*) AS n, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER () AS rel FROM orders GROUP BY qty
SELECT COUNT(*) FROM orders WHERE ("Customer Segment" = 'Consumer') IS NOT TRUE
SELECT COUNT(*) FROM orders WHERE qty IN (SELECT qty FROM orders GROUP BY qty HAVING COUNT(*) > 500)
SELECT seg, n FROM (SELECT "Customer Segment" seg, COUNT(*) n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) rn FROM orders GROUP BY 1) WHERE rn = 1
SELECT SUM(CASE WHEN is_gift THEN qty END) AS gift_qty, SUM(CASE WHEN NOT is_gift THEN qty ELSE 0 END) AS other_qty FROM orders
SELECT MODE(qty), MODE() WITHIN GROUP (ORDER BY qty) FROM orders
SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY qty) AS q1, PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY qty) - PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY qty) AS iqr FROM orders""".splitlines()

MORE_MEANT = {
    "SELECT quantile_cont(shift, [0.25, 0.5, 0.75]) FROM trips": "SELECT quantile_cont(shift, 0.25), quantile_cont(shift, 0.5), quantile_cont(shift, 0.75) FROM trips",
    "SELECT RATIO_TO_REPORT(COUNT(*)) OVER () FROM trips GROUP BY airport": "SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM trips GROUP BY airport",
    "SELECT DATE_FORMAT(pickup_date, '%Y-%m') FROM trips GROUP BY 1": "SELECT STRFTIME(pickup_date, '%Y-%m') FROM trips GROUP BY 1",
    "SELECT COUNT(*) FROM trips WHERE shift = SOME (ARRAY[1, 2, 3])": "SELECT COUNT(*) FROM trips WHERE shift IN (1,2,3)",
    "SELECT COUNT(*) FROM trips WHERE pickup_date >= DATEADD(month, -3, DATE '2021-12-01')": "SELECT COUNT(*) FROM trips WHERE pickup_date >= DATE '2021-09-01'",
    "SELECT ISNULL(payment_type, 'none') AS p, COUNT(*) FROM trips GROUP BY 1": "SELECT COALESCE(payment_type, 'none') AS p, COUNT(*) FROM trips GROUP BY 1",
    "SELECT DECODE(airport, true, 'Y', 'N') AS a, COUNT(*) FROM trips GROUP BY 1": "SELECT CASE WHEN airport THEN 'Y' ELSE 'N' END, COUNT(*) FROM trips GROUP BY 1",
    "SELECT DECODE(payment_type, 'Cash', 1, NULL, 0, 2) AS a, COUNT(*) FROM trips GROUP BY 1": "SELECT CASE WHEN payment_type='Cash' THEN 1 WHEN payment_type IS NULL THEN 0 ELSE 2 END, COUNT(*) FROM trips GROUP BY 1",
    "SELECT EVERY(shift >= 0) FROM trips": "SELECT BOOL_AND(shift>=0) FROM trips",
    "SELECT generate_series(0, 2) AS k": "SELECT unnest(generate_series(0,2)) AS k",
    "SELECT NVL2(payment_type, 1, 0) AS k, COUNT(*) FROM trips GROUP BY 1": "SELECT CASE WHEN payment_type IS NOT NULL THEN 1 ELSE 0 END, COUNT(*) FROM trips GROUP BY 1",
    "SELECT COUNT(*) FROM trips WHERE DATEDIFF(month, DATE '2021-01-01', pickup_date) < 3": "SELECT COUNT(*) FROM trips WHERE DATE_DIFF('month', DATE '2021-01-01', pickup_date) < 3",
    "SELECT COUNT(*) FROM trips WHERE MONTH(pickup_date) = 2 AND payment_type != 'Cash'": "SELECT COUNT(*) FROM trips WHERE MONTH(pickup_date) = 2 AND payment_type <> 'Cash'",
    'SELECT SUM(1) AS "sum:Number of Records:ok", "trips"."payment_type" AS "payment_type" FROM "public"."trips" "trips" GROUP BY 2': "SELECT SUM(1), payment_type FROM trips GROUP BY 2",
    "SELECT IIF(airport, 'Y', 'N') AS a, COUNT(*) FROM trips GROUP BY 1": "SELECT IF(airport, 'Y', 'N') AS a, COUNT(*) FROM trips GROUP BY 1",
    "SELECT NVL(payment_type, 'none') AS p, COUNT(*) FROM trips GROUP BY 1": "SELECT COALESCE(payment_type, 'none') AS p, COUNT(*) FROM trips GROUP BY 1",
    "SELECT h.bucket, COUNT(*) FROM (SELECT WIDTH_BUCKET(shift, 0, 21, 3) AS bucket FROM trips) h GROUP BY h.bucket": "SELECT 1 + shift // 7 AS b, COUNT(*) FROM trips GROUP BY b",
    "SELECT g.m, COALESCE(x.n, 0) AS n FROM generate_series(DATE '2021-01-01', DATE '2021-06-01', INTERVAL '1 month') AS g(m) LEFT JOIN (SELECT DATE_TRUNC('month', pickup_date) AS m, COUNT(*) n FROM trips GROUP BY 1) x ON x.m = g.m": "SELECT CAST(DATE_TRUNC('month', pickup_date) AS DATE), COUNT(*) FROM trips WHERE pickup_date < DATE '2021-07-01' GROUP BY 1",
    "SELECT g, g * 2 AS twice FROM generate_series(3, 1, -1) AS g": "SELECT unnest([3, 2, 1]), unnest([6, 4, 2])",
    "SELECT i FROM generate_series(DATE '2024-01-31', DATE '2024-04-30', INTERVAL '1 month') AS g(i)": "SELECT unnest([DATE '2024-01-31', DATE '2024-02-29', DATE '2024-03-31', DATE '2024-04-30'])",
    "SELECT i FROM generate_series(DATE '2024-02-26', DATE '2024-03-11', INTERVAL '1 week') AS g(i)": "SELECT unnest([DATE '2024-02-26', DATE '2024-03-04', DATE '2024-03-11'])",
}
