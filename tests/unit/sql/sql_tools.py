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
