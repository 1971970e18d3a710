// Charts as SVG elements: bars with error bars, and a staircase of spending.

import { h, svg } from "./dom.js";
import { amount, number, plusMinus } from "./words.js";

const ROW = 26;

// entries: [{label, value, error, typical}]: thin whiskers for the certified error, thick ones for the typical; the table beside the chart carries the same numbers for screen readers.
export function bars(entries, title) {
  const narrow = window.innerWidth < 560;
  const [WIDTH, LABEL, VALUE, letters] = narrow ? [360, 104, 104, 14] : [720, 168, 128, 24];
  const top = Math.max(...entries.map((e) => Math.max(0, e.value) + (e.error ?? 0)), 1e-12);
  const plot = WIDTH - LABEL - VALUE;
  const place = (value) => LABEL + (Math.max(0, value) / top) * plot;
  const height = entries.length * ROW + 10;
  const marks = entries.flatMap((entry, index) => {
    const y = index * ROW + 6;
    const middle = y + (ROW - 9) / 2;
    const bound = entry.error === null || entry.error === undefined;
    const low = place(entry.value - (entry.error ?? 0));
    const high = place(entry.value + (entry.error ?? 0));
    const usual = entry.typical ?? null;
    return [
      svg("text", { x: LABEL - 10, y: middle + 4, class: "label" }, short(entry.label, letters)),
      svg("rect", { x: LABEL, y, width: Math.max(1, place(entry.value) - LABEL), height: ROW - 9, rx: 2, class: bound ? "bar unsure" : "bar" }),
      bound ? null : svg("path", { class: "halo", d: `M${low} ${middle}H${high}` }),
      bound ? null : svg("path", { class: "whisker", d: `M${low} ${middle - 5}v10M${low} ${middle}H${high}M${high} ${middle - 5}v10` }),
      usual === null ? null : svg("path", { class: "whisker typical", d: `M${place(entry.value - usual)} ${middle}H${place(entry.value + usual)}` }),
      svg("text", { x: WIDTH - 4, y: middle + 4, class: "value" }, `${number(entry.value, entry.error)}${bound ? "" : ` ± ${plusMinus(entry.error)}`}`),
    ];
  });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${title}: bar chart with error bars; the table below has the same numbers` },
      svg("line", { x1: LABEL, x2: LABEL, y1: 2, y2: height - 4, class: "axis" }), marks),
    entries.some((entry) => (entry.typical ?? null) !== null)
      ? h("figcaption", { class: "hint" }, "Thin line: the certified bound, for all numbers at once. Thick line: the error that 19 of 20 such questions stay within.") : null);
}

function short(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

// charges: [{at, total}], the limit as a dashed line.
export function staircase(charges, limit, unit) {
  const [width, height, left, bottom, right] = window.innerWidth < 560 ? [360, 200, 84, 30, 6] : [720, 220, 92, 30, 14];
  const first = charges[0]?.at ?? 0;
  const last = Math.max(charges.at(-1)?.at ?? 1, first + 1);
  const x = (at) => left + ((at - first) / (last - first)) * (width - left - right);
  const y = (total) => height - bottom - (total / (limit * 1.08)) * (height - bottom - 12);
  let path = `M${left} ${y(0)}`;
  for (const charge of charges) path += `H${x(charge.at).toFixed(1)}V${y(charge.total).toFixed(1)}`;
  path += `H${width - right}`;
  const spent = charges.at(-1)?.total ?? 0;
  const ticks = [0, 0.5, 1].map((share) => [
    svg("text", { x: left - 8, y: y(limit * share) + 4, class: "value" }, `${amount(limit * share)} ${unit}`),
    svg("line", { x1: left, x2: width - right, y1: y(limit * share), y2: y(limit * share), class: share === 1 ? "limit" : "grid" }),
  ]);
  const moment = (at) => new Date(at * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Spending over time: ${amount(spent)} of ${amount(limit)} ${unit} spent in ${charges.length} charges` },
      ticks, svg("path", { d: `${path}V${y(0)}H${left}Z`, class: "area" }), svg("path", { d: path, class: "stair" }),
      svg("text", { x: left, y: height - 8, class: "start" }, charges.length ? moment(first) : ""),
      svg("text", { x: width - right, y: height - 8, class: "value" }, charges.length ? moment(last) : "")));
}

export function gauge(spent, limit, label) {
  const share = limit ? Math.min(1, spent / limit) : 0;
  const bar = h("span");
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return h("div", {
    class: share > 0.9 ? "gauge low" : "gauge", role: "meter", "aria-label": label,
    "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share), "aria-valuetext": `${Math.round(100 * share)} percent spent`,
  }, bar);
}
