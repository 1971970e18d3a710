// A question clicked together: what to measure, by which columns, under which conditions; it becomes SQL.

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;
// The words of reticent/sql/parse.py; a test compares the two lists.
const RESERVED = new Set(`
  all alter and any array as between by case column connect_by_root create cross cube current_catalog current_date
  current_time current_timestamp current_user date default describe distinct drop else end except false fetch for force
  from glob grant group having if ilike in inner insert install intersect into is join lateral like limit list
  localtime localtimestamp lock map not notnull null nullable object offset on only or order outer partitioned_by
  positional qualify range regexp returning revoke rlike rollback rollup row select session_user struct summarize table
  tablesample then time true uncache union user using values when where window with xor
`.trim().split(/\s+/));

export function quoteName(name) {
  return PLAIN.test(name) && !RESERVED.has(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`;
}

export function literal(value) {
  if (typeof value === "number") return String(value);
  if (typeof value === "boolean") return value ? "TRUE" : "FALSE";
  return `'${String(value).replaceAll("'", "''")}'`;
}

export function newQuestion() {
  return { measure: "count", groups: [], filters: new Map() };
}

// How many leading codes are declared values; after them come (null) and (other).
export function known(attribute) {
  const { declaration: d, labels } = attribute;
  return d.type === "categorical" ? d.values.length : d.type === "numeric" ? d.edges.length - 1 : labels.length;
}

export function numeric(attribute) {
  return attribute.type !== "categorical" && typeof (attribute.declaration.edges ?? [0])[0] === "number";
}

function valueOf(attribute, code) {
  const { declaration: d } = attribute;
  return d.type === "categorical" ? d.values[code] : d.type === "integer" ? code : null;
}

// Codes chosen for one attribute as a condition.
export function condition(attribute, codes) {
  const name = quoteName(attribute.name);
  const count = known(attribute);
  const parts = [];
  const declared = codes.filter((code) => code < count);
  if (declared.length && attribute.declaration.type === "numeric") parts.push(...runs(declared).map(([from, to]) => span(name, attribute, from, to, count)));
  else if (declared.length === 1) parts.push(`${name} = ${literal(valueOf(attribute, declared[0]))}`);
  else if (declared.length) parts.push(`${name} IN (${declared.map((code) => literal(valueOf(attribute, code))).join(", ")})`);
  for (const code of codes.filter((c) => c >= count)) {
    parts.push(attribute.labels[code] === "(null)" ? `${name} IS NULL` : `${name} = '(other)'`);
  }
  return parts.length > 1 ? `(${parts.join(" OR ")})` : parts[0] ?? null;
}

function runs(codes) {
  const found = [];
  for (const code of [...codes].sort((a, b) => a - b)) {
    if (found.length && found.at(-1)[1] === code - 1) found.at(-1)[1] = code;
    else found.push([code, code]);
  }
  return found;
}

// Values beyond the edges were clamped, so the end bins are open outwards.
function span(name, attribute, from, to, count) {
  const { edges } = attribute.declaration;
  const low = from > 0 ? `${name} >= ${literal(edges[from])}` : null;
  const high = to < count - 1 ? `${name} < ${literal(edges[to + 1])}` : null;
  if (!low && !high) return `${name} IS NOT NULL`;
  return low && high ? `(${low} AND ${high})` : low ?? high;
}

// The same conditions as a predicate of the JSON interface; null where nothing is restricted.
export function predicateOf(question, table) {
  const parts = restricted(question, table).map(([attribute, codes]) => joined("or", alternatives(attribute, codes)));
  return parts.length ? joined("and", parts) : null;
}

function joined(op, parts) {
  return parts.length === 1 ? parts[0] : { op, of: parts };
}

function alternatives(attribute, codes) {
  const count = known(attribute);
  const column = attribute.name;
  const declared = codes.filter((code) => code < count);
  const { declaration } = attribute;
  const parts = declaration.type === "numeric"
    ? runs(declared).map(([from, to]) => {
        const ends = [];
        if (from > 0) ends.push({ op: ">=", column, value: declaration.edges[from] });
        if (to < count - 1) ends.push({ op: "<", column, value: declaration.edges[to + 1] });
        return ends.length ? joined("and", ends) : { op: "is_known", column };
      })
    : declared.length ? [{ op: "in", column, values: declared.map((code) => valueOf(attribute, code)) }] : [];
  for (const code of codes.filter((c) => c >= count)) {
    parts.push(attribute.labels[code] === "(null)" ? { op: "is_null", column } : { op: "==", column, value: "(other)" });
  }
  return parts;
}

function restricted(question, table) {
  return table.domain
    .map((attribute) => [attribute, question.filters.get(attribute.name) ?? []])
    .filter(([attribute, codes]) => codes.length && codes.length < attribute.labels.length);
}

// An average alone is asked as one mean, whose error is in the column's unit; everything else is SQL.
export function bodyOf(question, table) {
  if (question.measure === "count" || question.groups.length) return { sql: sqlOf(question, table) };
  const where = predicateOf(question, table);
  return { query: { query: "mean", column: question.measure, ...(where ? { where } : {}) } };
}

export function sqlOf(question, table) {
  const by = question.groups.map(quoteName);
  const average = question.measure !== "count";
  const what = average ? `AVG(${quoteName(question.measure)}) AS average` : `COUNT(*) AS ${quoteName(`${table.unit}s`)}`;
  const where = restricted(question, table).map(([attribute, codes]) => condition(attribute, codes));
  return [
    `SELECT ${[...by, what].join(", ")}`,
    `FROM ${quoteName(table.name)}`,
    where.length ? `WHERE ${where.join("\n  AND ")}` : null,
    by.length ? `GROUP BY ${by.join(", ")}` : null,
  ].filter(Boolean).join("\n");
}

export function wordsOf(question, table) {
  const what = question.measure === "count" ? `Number of ${table.unit}s` : `Average of ${question.measure}`;
  const by = question.groups.length ? ` by ${question.groups.join(", ").replace(/, ([^,]*)$/, " and $1")}` : "";
  const where = [...question.filters].filter(([, codes]) => codes.length).map(([name, codes]) => {
    const attribute = table.domain.find((a) => a.name === name);
    const labels = codes.map((code) => attribute.labels[code]);
    return `${name} is ${labels.length > 4 ? `one of ${labels.length} values` : labels.join(" or ")}`;
  });
  return `${what}${by}${where.length ? `, where ${where.join(" and ")}` : ""}`;
}
