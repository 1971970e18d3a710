// A question clicked together: what to measure, by which columns, under which conditions; it becomes SQL.

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;
const RESERVED = new Set(["select", "from", "where", "group", "order", "by", "and", "or", "not", "in", "is", "null", "table", "case", "when", "then", "end", "limit", "having", "as", "on", "all", "any", "union", "with", "date", "time", "user", "column", "default", "true", "false", "between", "like"]);

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

export function sqlOf(question, table) {
  const by = question.groups.map(quoteName);
  const average = question.measure !== "count";
  const what = average ? `AVG(${quoteName(question.measure)}) AS average` : "COUNT(*) AS records";
  const where = table.domain
    .map((attribute) => [attribute, question.filters.get(attribute.name) ?? []])
    .filter(([attribute, codes]) => codes.length && codes.length < attribute.labels.length)
    .map(([attribute, codes]) => condition(attribute, codes));
  return [
    `SELECT ${[...by, what].join(", ")}`,
    `FROM ${quoteName(table.name)}`,
    where.length ? `WHERE ${where.join("\n  AND ")}` : null,
    by.length ? `GROUP BY ${by.join(", ")}` : null,
  ].filter(Boolean).join("\n");
}

export function wordsOf(question, table) {
  const what = question.measure === "count" ? `Number of ${table.unit}s` : `Average of ${question.measure}`;
  const by = question.groups.length ? ` by ${question.groups.join(" and ")}` : "";
  const where = [...question.filters].filter(([, codes]) => codes.length).map(([name, codes]) => {
    const attribute = table.domain.find((a) => a.name === name);
    const labels = codes.map((code) => attribute.labels[code]);
    return `${name} ${labels.length > 4 ? `one of ${labels.length} values` : labels.join(" or ")}`;
  });
  return `${what}${by}${where.length ? `, where ${where.join(" and ")}` : ""}`;
}
