// An answer on the page: the numbers, a chart with error bars, the guarantee in words.

import { bars } from "./chart.js";
import { h, notice, save } from "./dom.js";
import { number, percent, plusMinus, sentence } from "./words.js";

const CHARTED = 48;
const DATES = new Set(["date", "timestamp"]);

// Every kind of reply as one table: {columns, aggregates, rows, errors}.
function tabled(reply, { records, unit }) {
  const { result } = reply;
  if (reply.kind === "table") return result;
  if (reply.kind === "models") {
    const rows = result.models.flatMap((model, place) => Object.entries(model.coefficients).map(([name, value]) => [`${place + 1}: ${model.loss.label ?? "mean"}`, name, value]));
    return { columns: ["model", "feature", "coefficient"], aggregates: [false, false, true], rows, errors: rows.map(() => [null, null, null]) };
  }
  if (!result.labels.length) {
    const counted = result.count !== null;
    return {
      columns: [counted ? `${unit}s` : "value"], aggregates: [true],
      rows: [[counted ? result.count : result.value]],
      errors: [[result.error === null ? null : counted ? result.error * records : result.error]],
      typical: result.typical === null || result.typical === undefined || !counted ? [] : [[result.typical * records]],
    };
  }
  const names = result.labels.map(([name]) => name);
  const rows = [];
  const walk = (value, keys, depth) => {
    if (depth === names.length) rows.push([...keys, value]);
    else value.forEach((part, place) => walk(part, [...keys, result.labels[depth][1][place]], depth + 1));
  };
  walk(result.count ?? result.value, [], 0);
  const error = result.error === null ? null : result.count === null ? result.error : result.error * records;
  return {
    columns: [...names, result.count === null ? "value" : `${unit}s`], aggregates: [...names.map(() => false), true],
    rows, errors: rows.map(() => [...names.map(() => null), error]),
    typical: (result.typical ?? null) === null || result.count === null ? [] : rows.map(() => [...names.map(() => null), result.typical * records]),
  };
}

// `money` writes an amount of the budget.
export function resultView(reply, question, table, money) {
  const data = tabled(reply, table);
  const { result } = reply;
  return h("article", { class: "card result", "aria-labelledby": "answer-title" },
    h("div", { class: "row between" }, h("h2", { id: "answer-title", tabindex: "-1" }, "Answer"), badge(reply, money)),
    h("p", { class: "question" }, question),
    data.rows.length === 0 ? h("p", { class: "empty" }, "No group is left after the conditions on the groups.")
      : data.rows.length === 1 && data.aggregates.every(Boolean) ? figure(data, table) : reply.kind === "models" ? null : charts(data),
    result.note ? noted(result.note) : null,
    result.basis ? h("p", { class: "hint" }, `Basis: ${result.basis.replace(/^of /, "")}.`) : null,
    h("p", { class: "promise" }, sentence(reply), " ", h("span", { class: "quiet" }, `${capital(reply.meaning)}.`)),
    data.rows.length > 1 || !data.aggregates.every(Boolean) ? grid(data) : null,
    h("div", { class: "row" },
      h("button", { type: "button", class: "plain", onclick: () => save(`${table.name}-answer.csv`, csv(data)) }, "Download as CSV"),
      result.snapshot ? h("span", { class: "hint" }, `Snapshot ${result.snapshot.slice(0, 8)}`) : null,
      result.ledger_id ? h("span", { class: "hint" }, `Ledger entry ${result.ledger_id}`) : null));
}

// Notes and bases may begin with the name of a column, which stays as it is written.
function noted(note) {
  return /\breached\b/.test(note) ? notice("warn", "Less precise than requested", `${note}. Asking again starts from better estimates.`)
    : h("p", { class: "hint" }, `Note: ${note}.`);
}

// " ± ..." of one value. A date's bound is in days; a text or truth value that has one is certain.
function bounded(cell, error, kind) {
  if (error === null || cell === null) return "";
  if (typeof cell === "number") return ` ± ${plusMinus(error)}`;
  return error > 0 && DATES.has(kind) ? ` ± ${plusMinus(error)} days` : "";
}

function capital(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

function badge(reply, money) {
  const { price } = reply.result;
  return price > 0 ? h("span", { class: "badge paid" }, `Paid ${money(price)}`) : h("span", { class: "badge free" }, "Free");
}

function figure(data, table) {
  return h("dl", { class: "figures" }, data.columns.map((name, place) => {
    const value = data.rows[0][place];
    const error = data.errors[0][place];
    const usual = usually(data, 0, place);
    const share = (name.startsWith("count(") || name === `${table.unit}s`) && table.records ? ` · ${percent(value / table.records)} of the table` : "";
    return h("div", null, h("dt", null, name),
      h("dd", null, number(value, error), error === null ? h("small", null, " no certified bound") : h("small", null, `${bounded(value, error, data.types?.[place])}${share}`),
        usual === null ? null : h("small", null, ` · 19 of 20 such questions: ± ${plusMinus(usual)}`)));
  }));
}

// What most such questions err, where that is less than what is certified.
function usually(data, row, place) {
  const typical = data.typical?.[row]?.[place] ?? null;
  const error = data.errors[row][place];
  return typical !== null && (error === null || typical < error) ? typical : null;
}

function charts(data) {
  const keys = data.aggregates.map((is, place) => (is ? -1 : place)).filter((place) => place >= 0);
  if (data.rows.length > CHARTED) return h("p", { class: "hint" }, `${data.rows.length} rows: too many for a chart that can be read; the table has them all.`);
  return data.columns.map((name, place) => {
    if (!data.aggregates[place] || data.rows.some((row) => row[place] !== null && typeof row[place] !== "number")) return null;
    const entries = data.rows.map((row, index) => ({
      label: keys.length ? keys.map((key) => (row[key] === null ? "NULL" : String(row[key]))) : [name],
      value: row[place] ?? 0, error: data.errors[index][place], typical: usually(data, index, place),
    }));
    return [data.aggregates.filter(Boolean).length > 1 ? h("h3", null, name) : null, bars(entries, name)];
  });
}

function grid(data) {
  const head = data.columns.map((name, place) => h("th", { scope: "col", class: data.aggregates[place] ? "number" : null }, name));
  const body = data.rows.map((row, index) => h("tr", null, row.map((cell, place) => {
    if (!data.aggregates[place]) return h("td", null, cell === null ? "NULL" : String(cell));
    const error = data.errors[index][place];
    return h("td", { class: "number" }, number(cell, error), h("span", { class: "error" }, bounded(cell, error, data.types?.[place])));
  })));
  return h("details", { class: "numbers", open: data.rows.length <= 12 || data.rows.length > CHARTED }, h("summary", null, `Table of ${data.rows.length} rows`),
    h("div", { class: "wide long", tabindex: "0", role: "region", "aria-label": "Table of the answer" },
      h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, body))));
}

function csv(data) {
  const quoted = (cell) => (cell === null ? "" : typeof cell === "number" ? String(cell) : `"${String(cell).replaceAll('"', '""')}"`);
  const head = data.columns.flatMap((name, place) => (data.aggregates[place] ? [name, `${name} error`] : [name]));
  const lines = data.rows.map((row, index) => row.flatMap((cell, place) => (data.aggregates[place] ? [cell, data.errors[index][place]] : [cell])).map(quoted).join(","));
  return new Blob([[head.map(quoted).join(","), ...lines].join("\r\n")], { type: "text/csv" });
}
