# ruff: noqa: E501 - statements stand one to a line, as an analyst would type them
"""What hospitals, statistics offices and companies type about two more tables, in the habits of several databases."""

from __future__ import annotations

OF_STAYS = r"""select count(*) as n_stays, count(distinct ward) as wards, round(avg(los), 2) as alos from stays
SELECT CASE WHEN age < 20 THEN '0-19' WHEN age < 40 THEN '20-39' WHEN age < 60 THEN '40-59' WHEN age < 80 THEN '60-79' ELSE '80+' END AS age_group, sex, COUNT(*) FROM stays GROUP BY 1, 2 ORDER BY 1, 2
SELECT CONCAT(FLOOR(age/20)*20, '-', FLOOR(age/20)*20 + 19) AS band, COUNT(*) FROM stays WHERE age < 80 GROUP BY band
SELECT NTILE(4) OVER (ORDER BY n) AS q, ward, n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) w
WITH m AS (SELECT DATE_TRUNC('month', admitted) AS mon, COUNT(*) AS n FROM stays GROUP BY 1) SELECT mon, n, LAG(n) OVER (ORDER BY mon) AS prev, 100.0 * (n - LAG(n) OVER (ORDER BY mon)) / NULLIF(LAG(n) OVER (ORDER BY mon), 0) AS growth FROM m ORDER BY mon
WITH m AS (SELECT DATE_TRUNC('month', admitted) AS mon, COUNT(*) AS n FROM stays GROUP BY 1), l AS (SELECT mon, n, LAG(n, 1, 0) OVER (ORDER BY mon) AS p FROM m) SELECT mon, n - p AS delta FROM l WHERE p > 0
SELECT ward, n, SUM(n) OVER (ORDER BY n DESC ROWS UNBOUNDED PRECEDING) * 1.0 / SUM(n) OVER () AS cum_share FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) x ORDER BY n DESC
SELECT ward, COUNT(*) FILTER (WHERE sex = 'F') AS f, COUNT(*) FILTER (WHERE sex = 'M') AS m, COUNT(*) FILTER (WHERE sex NOT IN ('F', 'M')) AS x FROM stays GROUP BY ward
SELECT ward, SUM(CASE WHEN readmitted THEN 1 ELSE 0 END) AS re, SUM(CASE WHEN readmitted IS NULL THEN 1 ELSE 0 END) AS unknown, AVG(CASE WHEN readmitted THEN 1.0 WHEN NOT readmitted THEN 0.0 END) AS rate FROM stays GROUP BY ward
SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ROLLUP (ward, sex) ORDER BY ward NULLS LAST, sex NULLS LAST
SELECT IFNULL(ward, 'All wards') AS ward, COUNT(*) FROM stays WHERE ward IS NOT NULL GROUP BY ROLLUP(ward)
SELECT ward, emergency, COUNT(*) FROM stays GROUP BY CUBE(ward, emergency) HAVING COUNT(*) > 100
SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > (SELECT COUNT(*) / 6.0 FROM stays)
SELECT ward FROM stays WHERE emergency GROUP BY ward HAVING COUNT(*) > 300 EXCEPT SELECT ward FROM stays WHERE NOT emergency GROUP BY ward HAVING COUNT(*) > 400
SELECT ward FROM stays WHERE emergency GROUP BY ward HAVING COUNT(*) > 300 INTERSECT SELECT ward FROM stays WHERE NOT emergency GROUP BY ward HAVING COUNT(*) > 300
SELECT g.ward, g.n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) g WHERE EXISTS (SELECT 1 FROM (SELECT ward, COUNT(*) k FROM stays WHERE readmitted GROUP BY ward) r WHERE r.ward = g.ward AND r.k > 200)
SELECT g.ward, g.n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) g WHERE NOT EXISTS (SELECT 1 FROM (SELECT ward, COUNT(*) k FROM stays WHERE readmitted GROUP BY ward) r WHERE r.ward = g.ward AND r.k > 200)
SELECT COUNT(*) FROM stays WHERE EXISTS (SELECT 1 FROM stays GROUP BY ward HAVING COUNT(*) > 100000)
SELECT CASE WHEN EXISTS (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 500) THEN 'yes' ELSE 'no' END AS big_ward, COUNT(*) FROM stays
SELECT STRING_AGG(DISTINCT ward, ', ' ORDER BY ward) FROM stays
SELECT sex, STRING_AGG(DISTINCT ward, '/' ORDER BY ward) FROM (SELECT sex, ward, COUNT(*) n FROM stays GROUP BY 1, 2) x GROUP BY sex
SELECT STRING_AGG(ward, ', ' ORDER BY n DESC) FROM (SELECT ward, COUNT(*) n FROM stays WHERE ward IS NOT NULL GROUP BY ward ORDER BY n DESC LIMIT 3) x
SELECT COUNT(*) FROM stays WHERE admitted BETWEEN DATE '2023-03-01' AND DATE '2023-03-01' + INTERVAL '3 months' - INTERVAL '1 day'
SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY los) AS q1, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY los) AS med, PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY los) AS q3 FROM stays
SELECT ward, COUNT(*) c FROM stays GROUP BY ward ORDER BY ward NULLS FIRST
SELECT ward, COUNT(*) c FROM stays GROUP BY ward ORDER BY ward DESC NULLS LAST LIMIT 3
SELECT SUM(cost) / NULLIF(SUM(los), 0) AS cost_per_day FROM stays
SELECT ward, SUM(cost) / COUNT(cost) AS mean_cost, AVG(cost) AS same FROM stays GROUP BY ward
SELECT ward, n, (n - AVG(n) OVER ()) / NULLIF(STDDEV(n) OVER (), 0) AS z FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) t ORDER BY z DESC
WITH w AS (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward), s AS (SELECT AVG(n) AS mu, STDDEV_POP(n) AS sd FROM w) SELECT ward, (n - mu) / sd AS z FROM w, s
WITH g AS (SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ward, sex) SELECT a.ward, a.sex, a.n * 1.0 / (SELECT SUM(b.n) FROM g b WHERE b.ward = a.ward) AS share FROM g a WHERE a.ward IS NOT NULL
WITH g AS (SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ward, sex) SELECT ward, sex, n FROM g WHERE n = (SELECT MAX(n) FROM g)
WITH g AS (SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ward, sex) SELECT ward, sex, n FROM g AS a WHERE n = (SELECT MAX(b.n) FROM g AS b WHERE b.ward = a.ward)
SELECT COUNT(*) FROM main.stays
SELECT YEAR(admitted) * 100 + MONTH(admitted) AS yyyymm, COUNT(*) FROM stays GROUP BY YEAR(admitted) * 100 + MONTH(admitted)
SELECT CAST(COUNT(*) AS DECIMAL(10,2)) / 12 AS per_month FROM stays
SeLeCt WARD, Count(*) N fRoM Stays gRoUp By Ward OrDeR bY N dEsC
SELECT COUNT(*) FROM stays WHERE sex = 'F' AND (age >= 60 OR age < 10) AND NOT emergency
SELECT COUNT(*) FROM stays WHERE ward IN ('ICU', 'Emergency') AND cost >= 2500 AND cost < 10000
SELECT COUNT(*) FROM stays WHERE cost IS NULL OR cost > 5000
SELECT COUNT(*) FROM stays WHERE ward LIKE '%ology' OR ward LIKE 'I_U'
SELECT COUNT(*) FROM stays WHERE UPPER(ward) = 'ICU'
SELECT COUNT(*) FROM stays WHERE LOWER(ward) IN ('icu', 'surgery')
SELECT SUBSTRING(ward FROM 1 FOR 3) AS w, COUNT(*) FROM stays GROUP BY w
SELECT INSTR(ward, 'e') AS p, COUNT(*) FROM stays GROUP BY 1
SELECT LEN(ward) AS l, COUNT(*) FROM stays GROUP BY LEN(ward)
SELECT ward || ' (' || sex || ')' AS label, COUNT(*) FROM stays GROUP BY ward || ' (' || sex || ')'
SELECT AVG(los) AS mean, STDDEV(los) AS sd, STDDEV(los) / SQRT(COUNT(*)) AS sem, AVG(los) - 1.96 * STDDEV(los) / SQRT(COUNT(*)) AS lo, AVG(los) + 1.96 * STDDEV(los) / SQRT(COUNT(*)) AS hi FROM stays
SELECT CORR(age, los) FROM stays
SELECT AVG(age * los) - AVG(age) * AVG(los) AS cov FROM stays
SELECT SUM(los) FILTER (WHERE emergency) * 1.0 / SUM(los) AS share_days FROM stays
SELECT sex, MEDIAN(los), MODE(los), MIN(los), MAX(los) FROM stays GROUP BY sex
SELECT los, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY los) AS cum, SUM(COUNT(*)) OVER (ORDER BY los) / SUM(COUNT(*)) OVER () AS cdf FROM stays GROUP BY los
SELECT los, 1 - SUM(COUNT(*)) OVER (ORDER BY los) * 1.0 / SUM(COUNT(*)) OVER () AS surv FROM stays GROUP BY los ORDER BY los
SELECT COUNT(*) AS n FROM stays WHERE los BETWEEN 2 AND 5 AND sex <> 'X'
SELECT COUNT(*) FROM stays WHERE NOT los > 3 AND los != 1
SELECT EXTRACT(MONTH FROM admitted) AS m, AVG(los) FROM stays GROUP BY EXTRACT(MONTH FROM admitted) ORDER BY m
SELECT CASE WHEN EXTRACT(MONTH FROM admitted) IN (12, 1, 2) THEN 'winter' WHEN EXTRACT(MONTH FROM admitted) BETWEEN 3 AND 5 THEN 'spring' WHEN EXTRACT(MONTH FROM admitted) BETWEEN 6 AND 8 THEN 'summer' ELSE 'autumn' END AS season, COUNT(*) FROM stays GROUP BY season ORDER BY COUNT(*) DESC
SELECT ward, COUNT(*) * 1000.0 / (SELECT COUNT(*) FROM stays) AS per_1000 FROM stays GROUP BY ward
SELECT ward, AVG(los) AS alos, AVG(los) - (SELECT AVG(los) FROM stays) AS diff FROM stays GROUP BY ward HAVING AVG(los) > (SELECT AVG(los) FROM stays)
SELECT sex, emergency, COUNT(*) FROM stays GROUP BY GROUPING SETS ((sex, emergency), (sex), ()) ORDER BY GROUPING(sex), GROUPING(emergency)
SELECT COUNT(*) FROM (SELECT ward, sex FROM stays GROUP BY ward, sex) AS combos
SELECT AVG(n) AS avg_group, MAX(n) AS biggest, MIN(n) AS smallest FROM (SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ward, sex) AS g
SELECT ward, COUNT(*) FROM stays GROUP BY ward UNION SELECT 'Total', COUNT(*) FROM stays
SELECT 'F' AS sex, COUNT(*) AS n FROM stays WHERE sex = 'F' UNION ALL SELECT 'M', COUNT(*) FROM stays WHERE sex = 'M' UNION ALL SELECT 'all', COUNT(*) FROM stays
(SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY n DESC LIMIT 1) UNION ALL (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY n ASC LIMIT 1)
SELECT w.ward, COALESCE(r.k, 0) AS re, w.n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) w LEFT JOIN (SELECT ward, COUNT(*) k FROM stays WHERE readmitted GROUP BY ward) r ON r.ward = w.ward
WITH cohort AS (SELECT * FROM stays WHERE age >= 60 AND emergency), by_ward AS (SELECT ward, COUNT(*) AS n, AVG(los) AS alos FROM cohort GROUP BY ward) SELECT ward, n, alos, RANK() OVER (ORDER BY alos DESC) AS r FROM by_ward WHERE n > 50
WITH cohort AS (SELECT *, CASE WHEN age >= 70 THEN 'old' ELSE 'young' END AS ag FROM stays) SELECT ag, COUNT(*) AS n, AVG(CASE WHEN readmitted THEN 1.0 ELSE 0.0 END) AS rate FROM cohort GROUP BY ag
SELECT COUNT(*) FILTER (WHERE readmitted AND age >= 70) * 1.0 / NULLIF(COUNT(*) FILTER (WHERE age >= 70), 0) AS p_old, COUNT(*) FILTER (WHERE readmitted AND age < 70) * 1.0 / NULLIF(COUNT(*) FILTER (WHERE age < 70), 0) AS p_young FROM stays
WITH p AS (SELECT emergency, AVG(CASE WHEN readmitted THEN 1.0 ELSE 0 END) AS r FROM stays GROUP BY emergency) SELECT MAX(CASE WHEN emergency THEN r END) / MAX(CASE WHEN NOT emergency THEN r END) AS relative_risk FROM p
SELECT * FROM (SELECT ward, sex FROM stays) PIVOT (COUNT(*) FOR sex IN ('F', 'M'))
SELECT DISTINCT ward FROM stays WHERE ward IS NOT NULL ORDER BY ward
SELECT DISTINCT sex, emergency FROM stays
SELECT COUNT(*) AS total, SUM(emergency::int) AS acute, AVG(emergency::int) * 100 AS pct FROM stays
SELECT ward, ROUND(AVG(cost)::numeric, -2) AS approx FROM stays GROUP BY ward
SELECT SUM(COALESCE(cost, 0)) AS total, SUM(cost) AS total2, COUNT(cost) AS with_cost, COUNT(*) - COUNT(cost) AS without FROM stays
SELECT GREATEST(AVG(los), 1) AS a, LEAST(AVG(los), 1) AS b FROM stays
SELECT ward, n, n - LEAD(n) OVER (ORDER BY n DESC, ward) AS lead_over_next FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) t
SELECT mon, AVG(n) OVER (ORDER BY mon ROWS 2 PRECEDING) AS ma3 FROM (SELECT EXTRACT(MONTH FROM admitted) AS mon, COUNT(*) n FROM stays GROUP BY 1) t
SELECT EXTRACT(QUARTER FROM admitted) AS q, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY EXTRACT(QUARTER FROM admitted)) AS diff FROM stays GROUP BY 1 ORDER BY 1
SELECT sex, ward, n FROM (SELECT sex, ward, COUNT(*) AS n, DENSE_RANK() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) AS r FROM stays GROUP BY sex, ward) ranked WHERE r <= 2
SELECT COUNT(*) FROM stays WHERE ward IN (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) >= 600)
SELECT COUNT(*) FROM stays WHERE ward NOT IN (SELECT ward FROM stays WHERE ward IS NOT NULL GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2)
SELECT MAX(n) * 1.0 / SUM(n) AS concentration FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) x
SELECT 1 - SUM(POWER(n * 1.0 / t, 2)) AS simpson FROM (SELECT COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM stays GROUP BY ward) x
SELECT COUNT(*) FROM stays WHERE DATE_PART('year', admitted) = 2023 AND DATE_PART('month', admitted) <= 6
SELECT COUNT(*) FROM stays WHERE MONTH(admitted) = 7 OR MONTHNAME(admitted) = 'August'
SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01 00:00:00'
SELECT COUNT(*) FROM stays WHERE admitted >= timestamp '2023-07-01 00:00:00'
SELECT FLOOR(age/10)*10 AS decade, COUNT(*) n FROM stays WHERE age < 90 GROUP BY FLOOR(age/10)*10 ORDER BY decade
SELECT FLOOR(age/10)*10 AS decade, sex, COUNT(*) n FROM stays WHERE age BETWEEN 20 AND 89 AND ward = 'ICU' GROUP BY 1, 2
SELECT CASE WHEN age > 95 THEN 'x' WHEN age > 49 THEN 'y' ELSE 'z' END AS d, COUNT(*) n FROM stays WHERE age < 90 GROUP BY 1
SELECT sex, STRING_AGG(DISTINCT ward, ', ' ORDER BY ward DESC) FROM stays GROUP BY sex
SELECT ward, STRING_AGG(DISTINCT sex, '' ORDER BY sex) FROM stays WHERE los > 3 GROUP BY ward
SELECT COUNT(*) FROM stays WHERE ward NOT IN (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 600)
SELECT COUNT(*) FROM stays WHERE ward NOT IN (SELECT ward FROM stays WHERE ward IS NULL OR ward = 'ICU' GROUP BY ward)
SELECT ward, n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) x WHERE ward NOT IN (SELECT ward FROM stays WHERE ward IS NULL OR ward = 'ICU' GROUP BY ward)
SELECT COUNT(*) FROM stays WHERE los NOT IN (SELECT NULLIF(los, 3) FROM stays GROUP BY 1)
SELECT COUNT(*) FROM stays WHERE ward NOT IN (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 600000)
SELECT COUNT(*) FROM stays WHERE (ward IN (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 600000)) IS NULL
SELECT ward, n FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) x WHERE ward NOT IN (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 600000)
SELECT ward, COUNT(*) AS n, (SELECT COUNT(*) FROM stays x WHERE x.ward = s.ward AND x.emergency) AS e FROM stays s GROUP BY s.ward
SELECT s.ward, s.sex, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM stays x WHERE x.ward = s.ward) AS share FROM stays s WHERE s.ward IS NOT NULL GROUP BY s.ward, s.sex
SELECT COUNT(*) FROM stays s WHERE los > (SELECT AVG(los) FROM stays x WHERE x.ward = s.ward)
SELECT ward, COUNT(*) FROM stays s WHERE los > (SELECT AVG(los) FROM stays x WHERE x.ward = s.ward AND x.sex = s.sex) GROUP BY ward
SELECT COUNT(*) FROM stays WHERE NOT EXISTS (SELECT 1 FROM stays WHERE los > 7)
SELECT COUNT(*) FROM stays WHERE EXISTS (SELECT * FROM stays WHERE los = 7) AND emergency
SELECT COUNT(*) FROM stays s WHERE EXISTS (SELECT * FROM stays x WHERE x.ward = s.ward AND x.los = 7)
SELECT COUNT(*) FROM stays s WHERE NOT EXISTS (SELECT * FROM stays x WHERE x.ward = s.ward AND x.los = 7)
SELECT EXISTS (SELECT 1 FROM stays WHERE los = 7) AS any_long
SELECT EXISTS (SELECT MAX(los) FROM stays WHERE los > 7) AS always
SELECT EXISTS (SELECT 1 FROM stays WHERE los = 3 LIMIT 1) AS some
SELECT ward FROM stays GROUP BY ward EXCEPT SELECT 'ICU'
SELECT ward, sex FROM stays GROUP BY ward, sex EXCEPT SELECT ward, 'X' FROM stays GROUP BY ward
SELECT DISTINCT ward FROM stays INTERSECT SELECT ward FROM (VALUES ('ICU'), (NULL), ('none')) v(ward)
(SELECT ward FROM stays GROUP BY ward) INTERSECT (SELECT ward FROM stays WHERE los > 3 GROUP BY ward HAVING AVG(los) > 1) ORDER BY 1
SELECT COUNT(*) FROM (SELECT ward FROM stays GROUP BY ward HAVING COUNT(*) > 500 EXCEPT SELECT 'ICU') x
SELECT COUNT(*) FROM stays WHERE (ward, sex) IN (SELECT ward, sex FROM stays GROUP BY ward, sex HAVING COUNT(*) > 200)
SELECT COUNT(*) FROM stays WHERE (ward, sex) NOT IN (SELECT ward, sex FROM stays GROUP BY ward, sex HAVING COUNT(*) > 200)
SELECT COUNT(*) FROM stays WHERE (ward, sex) NOT IN (SELECT ward, sex FROM stays WHERE ward IS NOT NULL GROUP BY ward, sex HAVING COUNT(*) > 200)
SELECT COUNT(*) FROM stays WHERE (ward, readmitted) NOT IN (SELECT ward, readmitted FROM stays WHERE los > 3 GROUP BY 1, 2 HAVING COUNT(*) > 100)
SELECT COUNT(*) FROM stays WHERE los >= ALL (SELECT AVG(los) FROM stays GROUP BY sex)
SELECT ward, AVG(los) FROM stays GROUP BY ward HAVING AVG(los) < ANY (SELECT AVG(los) FROM stays GROUP BY sex)
SELECT ward, AVG(los) FROM stays GROUP BY ward HAVING NOT AVG(los) >= SOME (SELECT AVG(los) FROM stays GROUP BY sex)
WITH m AS (SELECT AVG(los) a, STDDEV(los) s FROM stays) SELECT COUNT(*) FROM stays, m WHERE los > a + s
SELECT s.ward, COUNT(*) n, m.t FROM stays s CROSS JOIN (SELECT COUNT(*) AS t FROM stays) m GROUP BY s.ward, m.t
SELECT s.ward, COUNT(*) * 100.0 / MAX(m.t) FROM stays s CROSS JOIN (SELECT COUNT(*) AS t FROM stays) m GROUP BY s.ward
SELECT w.ward, (SELECT COUNT(*) FROM (SELECT ward, sex, COUNT(*) n FROM stays GROUP BY ward, sex) g WHERE g.ward = w.ward AND g.n > 200) AS big FROM (SELECT ward FROM stays GROUP BY ward) w
SELECT w.ward, (SELECT MAX(n) FROM (SELECT ward, sex, COUNT(*) n FROM stays GROUP BY ward, sex) g WHERE g.ward = w.ward) AS most FROM (SELECT ward FROM stays GROUP BY ward) w
SELECT a.ward, b.ward AS other FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) a JOIN (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) b ON a.n > b.n AND a.ward <> b.ward
WITH x AS (SELECT ward, sex, COUNT(*) n FROM stays GROUP BY 1, 2), y AS (SELECT ward, MAX(n) top FROM x GROUP BY 1) SELECT x.ward, x.sex, x.n FROM x JOIN y ON x.ward = y.ward AND x.n = y.top""".splitlines()
"""Answered as DuckDB answers them on the decoded table."""

OF_STAFF = r"""SELECT dept, gender, AVG(salary) FROM staff GROUP BY dept, gender ORDER BY dept NULLS LAST, gender NULLS LAST
SELECT 1 - AVG(salary) FILTER (WHERE gender = 'female') / AVG(salary) FILTER (WHERE gender = 'male') AS gender_pay_gap FROM staff
SELECT "Grade", 100.0 * (AVG(CASE WHEN gender = 'male' THEN salary END) - AVG(CASE WHEN gender = 'female' THEN salary END)) / AVG(CASE WHEN gender = 'male' THEN salary END) AS gap FROM staff GROUP BY "Grade"
SELECT grade, COUNT(*) FROM staff GROUP BY grade
SELECT "grade", count(*) FROM staff GROUP BY "grade"
SELECT "Full Time", COUNT(*) AS "Head Count" FROM staff GROUP BY "Full Time" ORDER BY "Head Count" DESC
SELECT SUM(CASE WHEN "Full Time" THEN 1.0 ELSE 0.5 END) AS fte FROM staff
SELECT dept, SUM(CASE WHEN "Full Time" THEN 1.0 WHEN NOT "Full Time" THEN 0.5 ELSE 0 END) AS fte FROM staff GROUP BY dept HAVING SUM(CASE WHEN "Full Time" THEN 1.0 WHEN NOT "Full Time" THEN 0.5 ELSE 0 END) > 100
SELECT YEAR(hired) AS y, COUNT(*) AS hires, SUM(COUNT(*)) OVER (ORDER BY YEAR(hired)) AS headcount FROM staff GROUP BY YEAR(hired) ORDER BY y
SELECT EXTRACT(YEAR FROM hired) AS y, COUNT(*) n, COUNT(*) * 1.0 / LAG(COUNT(*)) OVER (ORDER BY EXTRACT(YEAR FROM hired)) - 1 AS yoy FROM staff GROUP BY y
SELECT DATE_TRUNC('quarter', hired) AS q, COUNT(*) FROM staff WHERE hired >= '2021-01-01' GROUP BY 1 ORDER BY 1
SELECT dept, COUNT(*) FROM staff WHERE dept <> 'HR' GROUP BY dept
SELECT dept, COUNT(*) FROM staff WHERE dept NOT IN ('HR', 'Sales') GROUP BY dept
SELECT dept, SUM(salary) AS payroll, SUM(SUM(salary)) OVER () AS total, SUM(salary) / SUM(SUM(salary)) OVER () AS share FROM staff GROUP BY dept ORDER BY payroll DESC
SELECT dept, AVG(salary) AS a, RANK() OVER (ORDER BY AVG(salary) DESC) AS r FROM staff GROUP BY dept
SELECT dept, AVG(bonus / salary) FROM staff WHERE salary >= 20000 GROUP BY dept
SELECT dept, SUM(bonus) / SUM(salary) AS bonus_ratio FROM staff GROUP BY dept
SELECT AVG(salary + COALESCE(bonus, 0)) AS total_comp FROM staff
SELECT AVG(salary) / 12 AS monthly FROM staff WHERE remote = 1
SELECT COUNT(*) FROM staff WHERE remote = 0 OR remote IS NULL
SELECT COUNT(*) FROM staff WHERE "Full Time" = 'TRUE'
SELECT SUM(remote) FROM staff
SELECT AVG(CAST(remote AS INT)) FROM staff
SELECT SUM(IF(remote, 1, 0)) / COUNT(*) FROM staff
SELECT score, COUNT(*) AS n, REPEAT('*', score + 1) AS bar FROM staff GROUP BY score
SELECT score, score * COUNT(*) AS points FROM staff GROUP BY score
SELECT (COUNT(*) FILTER (WHERE score = 4) - COUNT(*) FILTER (WHERE score <= 2)) * 100.0 / COUNT(*) AS nps FROM staff
SELECT dept, 100.0 * (SUM(CASE WHEN score >= 4 THEN 1 ELSE 0 END) - SUM(CASE WHEN score <= 2 THEN 1 ELSE 0 END)) / COUNT(*) AS nps FROM staff GROUP BY dept
SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept HAVING COUNT(*) = (SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM staff GROUP BY dept) q)
SELECT dept FROM staff GROUP BY dept HAVING AVG(salary) > ALL (SELECT AVG(salary) FROM staff WHERE remote GROUP BY gender)
SELECT dept, AVG(score) FROM staff GROUP BY dept HAVING AVG(score) >= (SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) FROM (SELECT AVG(score) a FROM staff GROUP BY dept) q)
WITH d AS (SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept), t AS (SELECT SUM(n) AS total FROM d) SELECT d.dept, ROUND(100.0 * d.n / t.total, 2) AS pct FROM d CROSS JOIN t ORDER BY pct DESC
WITH d AS (SELECT dept, gender, COUNT(*) AS n FROM staff GROUP BY dept, gender), p AS (SELECT dept, SUM(n) FILTER (WHERE gender = 'female') AS f, SUM(n) AS t FROM d GROUP BY dept) SELECT dept, f, t, f * 1.0 / t AS share FROM p WHERE t > 0 ORDER BY share DESC
WITH f AS (SELECT dept, COUNT(*) n FROM staff WHERE gender = 'female' GROUP BY dept), m AS (SELECT dept, COUNT(*) n FROM staff WHERE gender = 'male' GROUP BY dept) SELECT COALESCE(f.dept, m.dept) AS dept, f.n AS women, m.n AS men FROM f FULL OUTER JOIN m ON f.dept = m.dept
WITH f AS (SELECT dept, COUNT(*) n FROM staff WHERE gender = 'female' GROUP BY dept), m AS (SELECT dept, COUNT(*) n FROM staff WHERE gender = 'male' GROUP BY dept) SELECT f.dept FROM f JOIN m ON f.dept = m.dept AND f.n > m.n
SELECT a.dept, a.n, b.dept AS other, b.n AS other_n FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) a JOIN (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) b ON a.dept < b.dept
SELECT dept, COUNT(*) AS n, CUME_DIST() OVER (ORDER BY COUNT(*)) AS cd, PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS pr FROM staff GROUP BY dept
SELECT dept, "Grade", COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY dept), 1) AS pct FROM staff GROUP BY dept, "Grade" ORDER BY dept NULLS LAST, "Grade"
SELECT dept, MAX(CASE WHEN "Grade" = 'A1' THEN n ELSE 0 END) AS a1, MAX(CASE WHEN "Grade" = 'A2' THEN n ELSE 0 END) AS a2 FROM (SELECT dept, "Grade", COUNT(*) n FROM staff GROUP BY 1, 2) t GROUP BY dept
PIVOT staff ON gender USING AVG(salary) GROUP BY dept
SELECT LEFT("Grade", 1) AS family, COUNT(*), AVG(score) FROM staff GROUP BY LEFT("Grade", 1) ORDER BY family
SELECT SUBSTR("Grade", 2, 1)::int AS lvl, COUNT(*) FROM staff GROUP BY lvl
SELECT COUNT(*) FROM staff WHERE "Grade" BETWEEN 'A2' AND 'B2'
SELECT COUNT(*) FROM staff WHERE "Grade" > 'B1' AND dept ILIKE 'eng%'
SELECT COUNT(*) FROM staff WHERE CONTAINS(dept, 'in')
SELECT COUNT(*) FROM staff WHERE dept IS NULL
SELECT COUNT(*) FROM staff WHERE TRIM(dept) <> '' AND dept IS NOT NULL
SELECT COUNT(DISTINCT dept), COUNT(DISTINCT "Grade"), COUNT(DISTINCT dept) * COUNT(DISTINCT "Grade") FROM staff
SELECT COUNT(*) FROM (SELECT DISTINCT dept, "Grade" FROM staff) q
SELECT dept, COUNT(*) FROM staff GROUP BY dept ORDER BY CASE dept WHEN 'Sales' THEN 1 WHEN 'HR' THEN 2 ELSE 3 END, dept NULLS LAST
SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC FETCH FIRST 2 ROWS ONLY
SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY
SELECT gender, COVAR_POP(score, salary) AS c, REGR_SLOPE(salary, score) AS b, REGR_R2(salary, score) AS r2 FROM staff GROUP BY gender
SELECT REGR_INTERCEPT(salary, score) + REGR_SLOPE(salary, score) * 3 AS predicted FROM staff
SELECT SUM((salary - 40000) * (salary - 40000)) / (COUNT(*) - 1) FROM staff
SELECT COUNT(*) FROM staff s, (SELECT AVG(score) AS a FROM staff) m WHERE s.score > m.a
SELECT COUNT(*) FROM staff CROSS JOIN (SELECT AVG(score) AS a FROM staff) m WHERE score > a
SELECT dept, COUNT(*) FROM staff WHERE score > (SELECT AVG(score) FROM staff) GROUP BY dept
SELECT dept, COUNT(*) FROM staff e WHERE salary > (SELECT AVG(salary) FROM staff WHERE dept = e.dept) GROUP BY dept
SELECT score, COUNT(*) AS n FROM staff GROUP BY score HAVING COUNT(*) > 10 AND score IN (1, 2, 3) ORDER BY score
SELECT AVG(score) AS mean, SUM(score * score) * 1.0 / COUNT(*) - POWER(AVG(score), 2) AS var FROM staff
SELECT EXP(SUM(LN(score + 1)) / COUNT(*)) - 1 AS geomean FROM staff
SELECT COUNT(*) / SUM(1.0 / (score + 1)) AS harmonic FROM staff
SELECT ROUND(AVG(score), 2), CEILING(AVG(score)), FLOOR(AVG(score)) FROM staff
SELECT COALESCE(dept, '(none)') AS dept, COUNT(*) FROM staff GROUP BY COALESCE(dept, '(none)')
SELECT CASE WHEN dept IS NULL THEN 'missing' ELSE 'known' END AS k, COUNT(*) FROM staff GROUP BY 1
SELECT dept IS NULL, gender IS NULL, COUNT(*) FROM staff GROUP BY 1, 2
SELECT COUNT(*) FILTER (WHERE dept IS NULL) AS miss_dept, COUNT(*) FILTER (WHERE gender IS NULL) AS miss_gender, COUNT(*) FILTER (WHERE bonus IS NULL) AS miss_bonus FROM staff
SELECT 100.0 * COUNT(gender) / COUNT(*) AS pct_known FROM staff
SELECT s.dept, s.n, RANK() OVER w, SUM(s.n) OVER w FROM (SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept) s WINDOW w AS (ORDER BY s.n DESC)
SELECT dept, n, n > LAG(n) OVER (ORDER BY n) AS up FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) s
SELECT dept, FIRST_VALUE("Grade") OVER (PARTITION BY dept ORDER BY COUNT(*) DESC) AS commonest FROM staff GROUP BY dept, "Grade"
SELECT dept, ARG_MAX("Grade", n) AS commonest FROM (SELECT dept, "Grade", COUNT(*) n FROM staff GROUP BY 1, 2) t GROUP BY dept
SELECT dept, COUNT(*) FROM staff WHERE hired >= DATE '2021-01-01' - INTERVAL '1' YEAR GROUP BY dept
SELECT COUNT(*) FROM staff WHERE hired BETWEEN '2020-04-01' AND '2020-06-30'
SELECT COUNT(*) FROM staff WHERE hired >= DATE('2021-07-01') AND YEAR(hired) = 2021
SELECT COUNT(*) FROM staff WHERE DATE_TRUNC('year', hired) = '2021-01-01'
SELECT YEAR(hired) AS y, QUARTER(hired) AS q, COUNT(*) FROM staff GROUP BY y, q HAVING y = 2021
SELECT CONCAT(YEAR(hired), ' Q', QUARTER(hired)) AS yq, COUNT(*) FROM staff GROUP BY yq ORDER BY yq
SELECT AVG(2023 - YEAR(hired)) AS avg_tenure FROM staff
SELECT AVG(DATE_DIFF('year', hired, DATE '2023-01-01')) FROM staff
SELECT gender, COUNT(*) AS count, COUNT(*) / SUM(count) OVER () FROM staff GROUP BY gender
SELECT dept, COUNT(*) AS total FROM staff GROUP BY dept HAVING total > 100 AND dept IS NOT NULL
SELECT dept AS d, COUNT(*) FROM staff WHERE d = 'HR' GROUP BY d
SELECT x.* FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) x WHERE x.n BETWEEN 100 AND 900
SELECT x.dept, x.n FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) x WHERE x.dept LIKE 'S%' OR x.n > 700
SELECT COUNT(*) AS "n (all)", COUNT(*) FILTER (WHERE score >= 3) AS "n (good)" FROM staff
SELECT dept, MIN(n) OVER (), MAX(n) OVER () FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) q
SELECT dept, SUM(n) OVER (ORDER BY n RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) q
SELECT score, n FROM (VALUES (0), (1), (2), (7)) AS v(s) LEFT JOIN (SELECT score, COUNT(*) n FROM staff GROUP BY score) q ON q.score = v.s
SELECT g.label, SUM(n) FROM (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) s JOIN (VALUES ('Sales', 'front'), ('HR', 'back'), ('Finance', 'back')) AS g(dept, label) ON s.dept = g.dept GROUP BY g.label
SELECT COUNT(*) FROM staff WHERE (dept, gender) IN (SELECT dept, gender FROM staff GROUP BY dept, gender HAVING COUNT(*) > 300)
SELECT COUNT(*) FROM staff WHERE score IN (SELECT score FROM staff WHERE remote GROUP BY score HAVING AVG(salary) > 40000)
SELECT dept, COUNT(*) FROM staff WHERE EXISTS (SELECT 1 FROM staff x WHERE x.dept = staff.dept GROUP BY x.dept HAVING COUNT(*) > 700) GROUP BY dept
SELECT COUNT(*) n, SUM(CASE gender WHEN 'female' THEN 1 END) f FROM staff WHERE "Full Time" IS NOT FALSE
SELECT COUNT(*) FROM staff WHERE NOT (gender = 'male' AND "Full Time") OR gender IS NULL
SELECT COUNT(*) FROM staff WHERE gender IS UNKNOWN
SELECT MOD(score, 2) AS odd, COUNT(*) FROM staff GROUP BY MOD(score, 2)
SELECT CASE WHEN score > 2 THEN 'good' WHEN score > 3 THEN 'best' ELSE NULL END AS k, COUNT(*) FROM staff GROUP BY k
WITH RECURSIVE g AS (SELECT dept, COUNT(*) n FROM staff GROUP BY dept) SELECT MAX(n) FROM g""".splitlines()
"""Answered as DuckDB answers them on the decoded table."""

COMMENTED = {
    "SELECT ward, COUNT(*) AS n /* all stays */ FROM stays -- the whole table\n GROUP BY ward",
    "-- first a comment\nSELECT COUNT(*) FROM stays",
}
"""Statements of several lines, with comments; of stays."""

MEANT_OF_OFFICES = {
    "SELECT ward, COUNT(*) FROM stays GROUP BY ward WITH ROLLUP": "SELECT ward, COUNT(*) FROM stays GROUP BY ROLLUP(ward)",
    "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-06-01' AND admitted < DATEADD(month, 3, '2023-06-01')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-06-01' AND admitted < '2023-09-01'",
    "SELECT QUANTILE_CONT(los, [0.25, 0.5, 0.75]) FROM stays": "SELECT QUANTILE_CONT(los, 0.25), QUANTILE_CONT(los, 0.5), QUANTILE_CONT(los, 0.75) FROM stays",
    "SELECT ward, QUANTILE_DISC(los, [0.1, 0.9]) FROM stays GROUP BY ward": "SELECT ward, QUANTILE_DISC(los, 0.1), QUANTILE_DISC(los, 0.9) FROM stays GROUP BY ward",
    "SELECT ward, los, COUNT(*) AS n FROM stays GROUP BY ALL QUALIFY ROW_NUMBER() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC, los) = 1": "SELECT ward, los, COUNT(*) AS n FROM stays GROUP BY ward, los QUALIFY ROW_NUMBER() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC, los) = 1",
    "SELECT IIF(emergency, 'acute', 'planned') AS kind, COUNT(*) FROM stays GROUP BY IIF(emergency, 'acute', 'planned')": "SELECT IF(emergency,'acute','planned') AS kind, COUNT(*) FROM stays GROUP BY 1",
    "SELECT NVL(ward, 'unknown') w, COUNT(*) FROM stays GROUP BY NVL(ward, 'unknown')": "SELECT COALESCE(ward,'unknown') w, COUNT(*) FROM stays GROUP BY 1",
    "SELECT DECODE(sex, 'F', 'female', 'M', 'male', 'other') AS s, COUNT(*) FROM stays GROUP BY DECODE(sex, 'F', 'female', 'M', 'male', 'other')": "SELECT CASE sex WHEN 'F' THEN 'female' WHEN 'M' THEN 'male' ELSE 'other' END AS s, COUNT(*) FROM stays GROUP BY 1",
    "SELECT TOP 5 ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY n DESC": "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY n DESC LIMIT 5",
    "SELECT [ward], COUNT(*) AS [n of stays] FROM [stays] GROUP BY [ward]": "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward",
    "SELECT [ward], COUNT(*) AS [n of stays] FROM [dbo].[stays] WHERE [sex] = 'F' GROUP BY [ward]": "SELECT ward, COUNT(*) AS n FROM stays WHERE sex = 'F' GROUP BY ward",
    "SELECT COUNT(*) FROM dbo.stays": "SELECT COUNT(*) FROM stays",
    'SELECT COUNT(*) FROM "public"."stays"': "SELECT COUNT(*) FROM stays",
    "SELECT s.ward, COUNT(*) FROM public.stays s WHERE s.age >= 60 GROUP BY s.ward": "SELECT ward, COUNT(*) FROM stays WHERE age >= 60 GROUP BY ward",
    "SELECT COUNTIF(emergency) AS e, SAFE_DIVIDE(COUNTIF(emergency), COUNT(*)) AS share FROM stays": "SELECT COUNT(*) FILTER (WHERE emergency) AS e, COUNT(*) FILTER (WHERE emergency) / COUNT(*) AS share FROM stays",
    "SELECT DIV0(COUNT_IF(emergency), COUNT(*)) FROM stays": "SELECT COUNT(*) FILTER (WHERE emergency) / COUNT(*) FROM stays",
    "SELECT FORMAT_DATE('%Y-%m', admitted) AS ym, COUNT(*) FROM stays GROUP BY ym": "SELECT STRFTIME(admitted, '%Y-%m') ym, COUNT(*) FROM stays GROUP BY ym",
    "SELECT DATE_FORMAT(admitted, '%Y-%m') AS ym, COUNT(*) FROM stays GROUP BY ym": "SELECT STRFTIME(admitted, '%Y-%m') ym, COUNT(*) FROM stays GROUP BY ym",
    "SELECT FORMAT(admitted, 'yyyy-MM') AS ym, COUNT(*) FROM stays GROUP BY FORMAT(admitted, 'yyyy-MM')": "SELECT STRFTIME(admitted, '%Y-%m') ym, COUNT(*) FROM stays GROUP BY ym",
    "SELECT TO_CHAR(admitted, 'YYYY') || '-Q' || TO_CHAR(admitted, 'Q') AS q, COUNT(*) FROM stays GROUP BY 1": "SELECT STRFTIME(admitted, '%Y') || '-Q' || QUARTER(admitted) AS q, COUNT(*) FROM stays GROUP BY 1",
    "SELECT TRUNC(admitted, 'MM') AS m, COUNT(*) FROM stays GROUP BY TRUNC(admitted, 'MM')": "SELECT DATE_TRUNC('month', admitted) m, COUNT(*) FROM stays GROUP BY 1",
    "SELECT DATE_TRUNC(admitted, MONTH) AS m, COUNT(*) FROM stays GROUP BY 1": "SELECT DATE_TRUNC('month', admitted) m, COUNT(*) FROM stays GROUP BY 1",
    "SELECT DATEPART(quarter, admitted) AS q, COUNT(*) FROM stays GROUP BY DATEPART(quarter, admitted)": "SELECT QUARTER(admitted) q, COUNT(*) FROM stays GROUP BY 1",
    "SELECT DATEPART(month, admitted) AS m, COUNT(*) FROM stays GROUP BY DATEPART(month, admitted)": "SELECT MONTH(admitted) q, COUNT(*) FROM stays GROUP BY 1",
    "SELECT DATENAME(month, admitted) AS m, COUNT(*) FROM stays GROUP BY DATENAME(month, admitted)": "SELECT MONTHNAME(admitted) q, COUNT(*) FROM stays GROUP BY 1",
    "SELECT EOMONTH(admitted) AS m, COUNT(*) FROM stays GROUP BY EOMONTH(admitted)": "SELECT LAST_DAY(admitted) q, COUNT(*) FROM stays GROUP BY 1",
    "SELECT COUNT(*) FROM stays WHERE ISNULL(cost, 0) >= 5000": "SELECT COUNT(*) FROM stays WHERE COALESCE(cost, 0) >= 5000",
    "SELECT CHARINDEX('e', ward) > 0 AS has_e, COUNT(*) FROM stays GROUP BY 1": "SELECT STRPOS(ward,'e') > 0 AS has_e, COUNT(*) FROM stays GROUP BY 1",
    "SELECT CHAR_LENGTH(ward) AS l, COUNT(*) FROM stays GROUP BY 1": "SELECT LENGTH(ward) AS l, COUNT(*) FROM stays GROUP BY 1",
    "SELECT ward + ' - ' + sex AS label, COUNT(*) FROM stays GROUP BY ward + ' - ' + sex": "SELECT ward || ' - ' || sex AS label, COUNT(*) FROM stays GROUP BY 1",
    "SELECT STDEV(los), VAR(los), STDEVP(los), VARP(los) FROM stays": "SELECT STDDEV(los), VARIANCE(los), STDDEV_POP(los), VAR_POP(los) FROM stays",
    "SELECT STD(los) FROM stays": "SELECT STDDEV_POP(los) FROM stays",
    "SELECT sex, emergency, COUNT(*), GROUPING_ID(sex, emergency) AS g FROM stays GROUP BY ROLLUP (sex, emergency)": "SELECT sex, emergency, COUNT(*), GROUPING(sex, emergency) AS g FROM stays GROUP BY ROLLUP (sex, emergency)",
    "SELECT BOOL_OR(los > 6), EVERY(los >= 0) FROM stays": "SELECT BOOL_OR(los>6), BOOL_AND(los>=0) FROM stays",
    "SELECT ward, LISTAGG(sex, ',') WITHIN GROUP (ORDER BY sex) FROM (SELECT ward, sex, COUNT(*) n FROM stays GROUP BY ward, sex) x GROUP BY ward": "SELECT ward, STRING_AGG(sex, ',' ORDER BY sex) FROM (SELECT ward, sex, COUNT(*) n FROM stays GROUP BY ward, sex) x GROUP BY ward",
    "SELECT ward, RATIO_TO_REPORT(COUNT(*)) OVER () AS share FROM stays GROUP BY ward": "SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM stays GROUP BY ward",
    "SELECT DATEDIFF(month, admitted, '2024-01-01') AS months_before, COUNT(*) FROM stays GROUP BY DATEDIFF(month, admitted, '2024-01-01')": "SELECT DATE_DIFF('month', admitted, DATE '2024-01-01') AS months_before, COUNT(*) FROM stays GROUP BY 1",
    "SELECT COUNT(*) FROM stays WHERE admitted > ADD_MONTHS(DATE '2023-01-31', 4)": "SELECT COUNT(*) FROM stays WHERE admitted > DATE '2023-05-31'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('2023-07-01', 'YYYY-MM-DD')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('01.07.2023', 'DD.MM.YYYY')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('01.07.2023', 'dd.mm.yyyy')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('01 Jul 2023', 'DD Mon YYYY')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('2023-07-01')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= TO_DATE('2023' || '-07-01', 'YYYY-MM-DD')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= STR_TO_DATE('2023-07-01', '%Y-%m-%d')": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT COUNT(*) FROM stays WHERE admitted >= '20230701'": "SELECT COUNT(*) FROM stays WHERE admitted >= '2023-07-01'",
    "SELECT AVG(remote) FROM staff": "SELECT AVG(remote::int) FROM staff",
    "SELECT SUM(remote = TRUE) FROM staff": "SELECT SUM((remote)::int) FROM staff",
    "SELECT COUNT(*) FROM staff WHERE dept REGEXP '^(Sales|HR)$'": "SELECT COUNT(*) FROM staff WHERE dept IN ('Sales','HR')",
    "SELECT COUNT(*) FROM staff WHERE REGEXP_LIKE(dept, '^S')": "SELECT COUNT(*) FROM staff WHERE dept = 'Sales'",
    "SELECT COUNT(*) FROM staff WHERE dept RLIKE 'in'": "SELECT COUNT(*) FROM staff WHERE dept IN ('Engineering','Finance')",
    "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC LIMIT 1, 2": "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC LIMIT 2 OFFSET 1",
    "SELECT SQUARE(AVG(score)) FROM staff": "SELECT POWER(AVG(score), 2) FROM staff",
    "SELECT DATEDIFF(year, hired, '2022-12-31') AS t, COUNT(*) FROM staff GROUP BY DATEDIFF(year, hired, '2022-12-31')": "SELECT DATE_DIFF('year', hired, DATE '2022-12-31') AS t, COUNT(*) FROM staff GROUP BY 1",
    "SELECT N'Total' AS label, COUNT(*) FROM staff": "SELECT 'Total' AS label, COUNT(*) FROM staff",
    "SELECT COUNT(*) cnt FROM staff WHERE dept = N'HR'": "SELECT COUNT(*) FROM staff WHERE dept = 'HR'",
    "SELECT COUNT(*) FROM staff WITH (NOLOCK)": "SELECT COUNT(*) FROM staff",
    "SELECT COUNT_BIG(*) FROM staff": "SELECT COUNT(*) FROM staff",
    "SELECT TRUNC(AVG(salary)), AVG(salary)::bigint, CAST(AVG(salary) AS SIGNED) FROM staff": "SELECT TRUNC(AVG(salary)), AVG(salary)::bigint, AVG(salary)::bigint FROM staff",
    'SELECT COUNT(*) FROM staff WHERE "Full Time" IS UNKNOWN': 'SELECT COUNT(*) FROM staff WHERE "Full Time" IS NULL',
    "SELECT COUNT(*) FROM staff WHERE gender <=> NULL": "SELECT COUNT(*) FROM staff WHERE gender IS NULL",
    "SELECT ELT(score + 1, 'a', 'b', 'c', 'd', 'e') AS k, COUNT(*) FROM staff GROUP BY k": "SELECT chr(97 + score::int) AS k, COUNT(*) FROM staff GROUP BY k",
    "SELECT CHOOSE(score + 1, 'a', 'b', 'c', 'd', 'e') AS k, COUNT(*) FROM staff GROUP BY k": "SELECT chr(97 + score::int) AS k, COUNT(*) FROM staff GROUP BY k",
    "SELECT ZEROIFNULL(SUM(bonus)), NULLIFZERO(COUNT(*)) FROM staff": "SELECT COALESCE(SUM(bonus),0), NULLIF(COUNT(*),0) FROM staff",
    "SELECT APPROX_PERCENTILE(score, 0.5) FROM staff": "SELECT APPROX_QUANTILE(score, 0.5) FROM staff",
    "SELECT PERCENTILE_APPROX(score, 0.9) FROM staff": "SELECT QUANTILE_DISC(score, 0.9) FROM staff",
    "SELECT COUNT(*) FROM stays WHERE DATEDIFF('2024-01-01', admitted) > 184": "SELECT COUNT(*) FROM stays WHERE admitted < '2023-07-01'",
    "SELECT TIMESTAMPDIFF(MONTH, '2020-01-01', hired) >= 12 AS t, COUNT(*) FROM staff GROUP BY 1": "SELECT hired >= '2021-01-01' AS t, COUNT(*) FROM staff GROUP BY 1",
    "SELECT COUNT(*) FROM staff WITH (NOLOCK) WHERE remote = 1": "SELECT COUNT(*) FROM staff WHERE remote",
    "SELECT PERCENTILE_CONT(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY los) FROM stays": "SELECT QUANTILE_CONT(los, 0.25), QUANTILE_CONT(los, 0.5) FROM stays",
    "SELECT ward, QUANTILE_DISC(los, [0.1, 0.9]) AS q, COUNT(*) FROM stays GROUP BY ward": "SELECT ward, QUANTILE_DISC(los, 0.1), QUANTILE_DISC(los, 0.9), COUNT(*) FROM stays GROUP BY ward",
    "SELECT MAX([n of stays]) FROM (SELECT [ward], COUNT(*) AS [n of stays] FROM [stays] GROUP BY [ward]) x": "SELECT MAX(n) FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward)",
    "SELECT DATE_FORMAT(admitted, '%b %Y') m, COUNT(*) FROM stays GROUP BY m": "SELECT STRFTIME(admitted, '%b %Y') m, COUNT(*) FROM stays GROUP BY m",
    "SELECT ISNULL(NULLIF(ward, 'ICU'), 'none') w, COUNT(*) FROM stays GROUP BY ISNULL(NULLIF(ward, 'ICU'), 'none')": "SELECT COALESCE(NULLIF(ward, 'ICU'), 'none') w, COUNT(*) FROM stays GROUP BY 1",
}
"""Statements in other spellings than DuckDB's, with one of the same meaning."""

_REFUSED_STAYS = r"""SELECT FLOOR(age/10)*10 AS decade, COUNT(*) n FROM stays GROUP BY FLOOR(age/10)*10 ORDER BY decade => GROUP BY FLOOR(age / 10) * 10 divides the bin 90-110 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT (age / 10)::int * 10 AS d, COUNT(*) FROM stays GROUP BY 1 => GROUP BY CAST((age / 10) AS INT) * 10 divides the bin 0-9 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT age // 20 * 20 AS lo, COUNT(*) FROM stays GROUP BY lo => GROUP BY age // 20 * 20 divides the bin 90-110 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT TRUNC(age / 10) AS d, COUNT(*) FROM stays GROUP BY d => GROUP BY TRUNC(age / 10) divides the bin 90-110 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT WIDTH_BUCKET(age, 0, 100, 10) AS b, COUNT(*) FROM stays GROUP BY b => GROUP BY WIDTH_BUCKET(age, 0, 100, 10) divides the bin 90-110 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT COUNT(*) FROM `project.dataset.stays` => "project.dataset.stays" is not the protected table; name the table itself after FROM
SELECT CONVERT(VARCHAR(7), admitted, 120) AS ym, COUNT(*) FROM stays GROUP BY CONVERT(VARCHAR(7), admitted, 120) => the SQL cannot be read at line 1, column 41 near ")": invalid expression / unexpected token; write CAST(value AS type)
SELECT COUNT(*) FROM stays WHERE ward = 'icu' => ward == "icu": not one of the 5 declared values; did you mean ICU
SELECT COUNT(*) FROM stays WHERE los !> 3 => the SQL cannot be read at line 1, column 38 near "!": invalid expression / unexpected token
SELECT ward, [F], [M] FROM (SELECT ward, sex, los FROM stays) AS src PIVOT (COUNT(los) FOR sex IN ([F], [M])) AS p => unknown column "F"; known: ward, sex, los
SELECT GROUP_CONCAT(ward ORDER BY n DESC SEPARATOR ';') FROM (SELECT ward, COUNT(*) n FROM stays WHERE ward IS NOT NULL GROUP BY ward) x => the SQL cannot be read at line 1, column 54 near "';'": invalid expression / unexpected token; write STRING_AGG(x, ';' ORDER BY y)
SELECT ARRAY_AGG(ward ORDER BY n DESC) FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) x => ARRAY_AGG(ward ORDER BY n DESC) gives a list; use STRING_AGG, which gives a text
SELECT AGE(DATE '2024-01-01', admitted) > INTERVAL '6 months' AS old, COUNT(*) FROM stays GROUP BY 1 => AGE(CAST('2024-01-01' AS DATE), admitted) is an interval of time; use EXTRACT(YEAR FROM AGE(DATE '2024-12-31', column))
SELECT DATEDIFF('2024-01-01', admitted) > 180 AS early, COUNT(*) FROM stays GROUP BY 1 => DATE_DIFF('DAY', admitted, CAST('2024-01-01' AS DATE)) > 180 cuts the bin 2023-07-01 to 2023-07-31 of admitted
SELECT COUNT(*) FROM stays WHERE admitted >= CONVERT(date, '2023-07-01') => the SQL cannot be read at line 1, column 71 near "'2023-07-01'": something is missing there; write CAST(value AS type)
SELECT COUNT(*) FROM stays WHERE admitted >= {d '2023-07-01'} => the SQL cannot be read at line 1, column 60 near "'2023-07-01'": expected }
SELECT CASE WHEN age > 95 THEN 'x' WHEN age > 49 THEN 'y' ELSE 'z' END AS d, COUNT(*) n FROM stays GROUP BY 1 => GROUP BY: age > 95 cuts the bin 90-110; nearest edges are 90 and 110
SELECT FLOOR(age/10)*10 AS decade, COUNT(*) n FROM stays GROUP BY 1 => GROUP BY FLOOR(age / 10) * 10 divides the bin 90-110 of age; group by the column, or at the edges of its bins, or leave that bin out with WHERE
WITH RECURSIVE y(n) AS (SELECT 2020 UNION ALL SELECT n + 1 FROM y WHERE n < 2022) SELECT y.n FROM y => y is defined in terms of itself; list numbers or dates with GENERATE_SERIES(1, 10)
SELECT QUANTILE_CONT(los, [0.25, 0.5])[1] FROM stays => lists and positions in brackets are not supported; compare columns with single values
SELECT LIST(los) FROM stays => ARRAY_AGG(los) would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT 1 + QUANTILE_CONT(los, [0.25, 0.5]) FROM stays => QUANTILE_CONT(los, (0.25, 0.5)) inside an expression is a list; ask for one level at a time
SELECT STRING_AGG(ward, ', ') FROM stays => STRING_AGG(ward, ', ') would list values of single records; COUNT(*) ... GROUP BY the column counts them
SELECT COUNT(*) FROM stays WHERE ward IN (['ICU']) => lists and positions in brackets are not supported; compare columns with single values
SELECT ward, COUNT(*) FROM stays GROUP BY ward EXCEPT SELECT ward, COUNT(*) FROM stays GROUP BY ward => EXCEPT compares rows, and noisy numbers are never equal; select public columns, such as GROUP BY keys
SELECT ward FROM stays GROUP BY ward EXCEPT ALL SELECT 'ICU' => EXCEPT ALL counts equal rows; use EXCEPT
SELECT ward FROM stays GROUP BY ward HAVING AVG(los) > ALL (SELECT AVG(los) FROM stays GROUP BY sex HAVING COUNT(*) > 5) => AVG(los) > ALL (SELECT AVG(los) FROM stays GROUP BY sex H... uses a subquery that may have no rows; leave HAVING and LIMIT out
WITH m AS (SELECT sex, AVG(los) a FROM stays GROUP BY sex) SELECT COUNT(*) FROM stays, m WHERE los > a => , m joins records with rows of a result; group first, and join the groups: FROM (SELECT ... GROUP BY ...) a JOIN ...
SELECT COUNT(*) FROM stays s WHERE EXISTS (SELECT 1 FROM stays x WHERE x.ward = s.ward HAVING COUNT(*) > 5) => EXISTS(SELECT 1 FROM stays AS x WHERE x.ward = s.ward HAV... has more than WHERE and GROUP BY; use x IN (SELECT ... GROUP BY x)
SELECT ward, (SELECT x.los FROM stays x WHERE x.ward = s.ward) FROM stays s GROUP BY ward => (SELECT x.los FROM stays AS x WHERE x.ward = s.ward) depends on the outer row; select one aggregate, and compare with = in its WHERE
SELECT ward, (SELECT COUNT(*) FROM stays x WHERE x.los > s.los) FROM stays s GROUP BY ward, los => the subquery looks at s.los of the outer query; compare it with = in the subquery's WHERE
SELECT a.ward FROM (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) a LEFT JOIN (SELECT ward, COUNT(*) n FROM stays GROUP BY ward) b ON a.ward = b.ward AND a.n > b.n => ON a.n > b.n is not an equality of columns; join on a = b, and use WHERE""".splitlines()

_REFUSED_STAFF = r"""SELECT CASE WHEN salary < 30000 THEN 'low' WHEN salary BETWEEN 30000 AND 50000 THEN 'mid' ELSE 'high' END AS band, COUNT(*) FROM staff GROUP BY band => GROUP BY: salary <= 50000 cuts the bin [50000, 75000); nearest edges are 50000 and 75000; use salary < 50000
SELECT ROUND(salary, -4) AS s, COUNT(*) FROM staff GROUP BY s => GROUP BY ROUND(salary, -4) divides the bin [0, 20000) of salary; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT COUNT(*) FROM staff WHERE remote = 'yes' => remote == "yes": not one of the 2 declared values; known: true, false
SELECT COUNT(*) FROM staff WHERE dept = '' => dept == "": not one of the 4 declared values; known: Sales, Engineering, HR, Finance
SELECT COUNT(DISTINCT dept || "Grade") FROM staff => COUNT(DISTINCT dept || "Grade") needs one column; name one, or use GROUP BY
SELECT COUNT(DISTINCT dept, "Grade") FROM staff => COUNT(DISTINCT dept, "Grade") counts combinations; SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM ...)
SELECT * FROM (SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC) WHERE ROWNUM <= 2 => unknown column "ROWNUM"; known: dept, n
SELECT TOP (2) WITH TIES dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY n DESC => the SQL cannot be read at line 1, column 19 near "WITH": invalid expression / unexpected token; leave WITH TIES out
SELECT SQRT(SUM(POWER(score - m.a, 2)) / COUNT(*)) FROM staff, (SELECT AVG(score) AS a FROM staff) m => POWER(score - (SELECT "a" FROM (SELECT AVG(score) AS a FR... combines values of records with a noisy value; ask for it first, and write the value
SELECT dept, (ARRAY_AGG("Grade" ORDER BY n DESC))[1] AS commonest FROM (SELECT dept, "Grade", COUNT(*) n FROM staff GROUP BY 1, 2) t GROUP BY dept => lists and positions in brackets are not supported; compare columns with single values
SELECT DATE_PART('year', AGE(DATE '2023-01-01', hired)) AS tenure, COUNT(*) FROM staff GROUP BY 1 => GROUP BY DATE_PART('year', AGE(CAST('2023-01-01' AS DATE), hired)) divides the bin 2020-01-01 to 2020-03-31 of hired; group by the column, or at the edges of its bins, or leave that bin out with WHERE
SELECT COUNT(*) FROM staff WHERE MONTHS_BETWEEN(DATE '2023-01-01', hired) > 12 => MONTHS_BETWEEN counts parts of months; use DATE_DIFF('month', earlier, later)
SELECT VALUE, COUNT(*) FROM staff GROUP BY VALUE => unknown column "VALUE"; known: dept, Grade, gender, salary, bonus, hired, remote, "Full Time", ...
SELECT COUNT(*) FROM hr.staff => a table of another schema is out of reach; use the table's own name
SELECT AVG(DISTINCT score) FROM staff => DISTINCT inside SUM or AVG depends on single records; COUNT(*) ... GROUP BY the column
SELECT FORMAT(AVG(salary), 2) FROM staff => FORMAT(AVG(salary), 2) writes a number as text; show the number itself, or use ROUND
SELECT TO_CHAR(AVG(salary), '999,999.99') FROM staff => TO_CHAR writes a number as text; show the number itself, or use ROUND
SELECT CONCAT(ROUND(100.0 * COUNT(*) FILTER (WHERE remote) / COUNT(*), 1), '%') FROM staff => CONCAT(ROUND(100.0 * COUNT(*) FILTER(WHERE remote) / COUN...: CONCAT needs known values, not noisy ones; use COUNT, SUM, AVG and other aggregates, columns of GROUP BY, constants, and functions of these
SELECT d.label, COUNT(*) FROM staff JOIN (VALUES ('Sales', 'front'), ('HR', 'back')) AS d(dept, label) ON staff.dept = d.dept GROUP BY d.label => JOIN (VALUES ('Sales', 'front'), ('HR', 'back')) AS d(dep... joins records with rows of a result; group first, and join the groups: FROM (SELECT ... GROUP BY ...) a JOIN ...
WITH RECURSIVE y(n) AS (SELECT 2020 UNION ALL SELECT n + 1 FROM y WHERE n < 2022) SELECT y.n, c.k FROM y LEFT JOIN (SELECT YEAR(hired) yr, COUNT(*) k FROM staff GROUP BY 1) c ON c.yr = y.n => y is defined in terms of itself; list numbers or dates with GENERATE_SERIES(1, 10)
SELECT COUNT(*) FROM staff WHERE remote XOR gender = 'male' => the SQL cannot be read at line 1, column 43 near "XOR": invalid expression / unexpected token; write (a AND NOT b) OR (b AND NOT a)
SELECT COUNT(*) FROM staff WHERE remote && score > 2 => remote && score: && compares lists here; write AND
SELECT COUNT(*) FROM staff WHERE score & 1 = 1 => score & 1: bits are not supported; use %, // and comparisons
SELECT MEDIAN(salary) OVER (PARTITION BY dept) FROM staff => MEDIAN(salary) OVER (PARTITION BY dept) ranks records; group first, and rank the groups
SELECT APPROX_QUANTILES(score, 4) FROM staff => APPROX_QUANTILE(score, [0, 0.25, 0.5, 0.75, 1]) gives a list; ask for one level at a time: APPROX_QUANTILE(x, 0.25)
SELECT dept, HISTOGRAM(score) FROM staff GROUP BY dept => unknown function "HISTOGRAM"; use COUNT, SUM, AVG and other aggregates, columns of GROUP BY, constants, and functions of these
SELECT COUNT(*) AS n FROM staff TABLESAMPLE BERNOULLI (10) => a sample of rows cannot be drawn; the answer covers all records, or use synthesize(rows)
SELECT dept, salary FROM staff WHERE salary > 90000 LIMIT 10 => dept is a raw column; add GROUP BY dept, or use COUNT(dept), SUM or AVG""".splitlines()

REFUSED_STAYS, REFUSED_STAFF = (
    [tuple(line.rsplit(" => ", 1)) for line in lines] for lines in (_REFUSED_STAYS, _REFUSED_STAFF)
)
"""With the whole reason."""
