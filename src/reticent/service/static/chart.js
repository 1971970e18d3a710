// Charts as SVG elements: bars with error bars, and a staircase of spending.

import { h, svg } from "./dom.js";
import { amount, number, plusMinus } from "./words.js";

const BAR = 17;
const NARROW = 560;
const JOINT = " · ";
const LETTERS = '13px system-ui, "Liberation Sans", sans-serif'; // as `.chart text` in style.css
const SLACK = 1.06; // for digits of one width, which a canvas does not measure
const context = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  context.font = LETTERS;
  return context.measureText(text).width * SLACK;
}

// entries: [{label, value, error, typical}], a label in parts: thin whiskers for the certified error, thick ones for the typical; the table beside the chart carries the same numbers for screen readers.
// On a wide screen label, bar and value share a line; on a narrow one the bar has a line of its own.
export function bars(entries, title) {
  const narrow = window.innerWidth < NARROW;
  const width = narrow ? 360 : 720;
  const texts = entries.map((e) => `${number(e.value, e.error)}${(e.error ?? null) === null ? "" : ` ± ${plusMinus(e.error)}`}`);
  const numbers = Math.max(...texts.map(widthOf)) + 16;
  const room = narrow ? width - numbers : Math.min(Math.max(...entries.map((e) => widthOf(e.label.join(JOINT)))) + 2, 0.4 * width);
  const left = narrow ? 0 : room + 12;
  const plot = width - left - (narrow ? 4 : numbers);
  const row = narrow ? 46 : 26;
  const top = Math.max(...entries.map((e) => Math.max(0, e.value) + Math.max(e.error ?? 0, e.typical ?? 0)), 1e-12);
  const place = (value) => left + (Math.max(0, value) / top) * plot;
  const height = entries.length * row + 10;
  const marks = entries.flatMap((entry, index) => {
    const y = index * row + (narrow ? 24 : 6);
    const middle = y + BAR / 2;
    const line = narrow ? y - 7 : middle + 4;
    const bound = entry.error === null || entry.error === undefined;
    const low = place(entry.value - (entry.error ?? 0));
    const high = place(entry.value + (entry.error ?? 0));
    const usual = entry.typical ?? null;
    const label = fitted(entry.label, room);
    const whole = entry.label.join(JOINT);
    return [
      svg("text", { x: narrow ? 0 : left - 10, y: line, class: narrow ? "label start" : "label" }, label, label === whole ? null : svg("title", null, whole)),
      svg("rect", { x: left, y, width: Math.max(1, place(entry.value) - left), height: BAR, rx: 2, class: bound ? "bar unsure" : "bar" }),
      bound ? null : svg("path", { class: "halo", d: `M${low} ${middle}H${high}` }),
      bound ? null : svg("path", { class: "whisker", d: `M${low} ${middle - 5}v10M${low} ${middle}H${high}M${high} ${middle - 5}v10` }),
      usual === null ? null : svg("path", { class: "whisker typical", d: `M${place(entry.value - usual)} ${middle}H${place(entry.value + usual)}` }),
      svg("text", { x: narrow ? width : width - 4, y: line, class: "value" }, texts[index]),
    ];
  });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: bar chart with error bars; the table below has the same numbers` },
      narrow ? null : svg("line", { x1: left, x2: left, y1: 2, y2: height - 4, class: "axis" }), marks),
    entries.some((entry) => (entry.typical ?? null) !== null)
      ? h("figcaption", { class: "hint" }, "Thin line: the certified bound, for all numbers at once. Thick line: the error that 19 of 20 such questions stay within.") : null);
}

// The parts in one line of this width. The first of them are shortened first: the last tells neighbours apart.
export function fitted(parts, room, measure = widthOf) {
  const cut = [...parts];
  const over = () => measure(cut.join(JOINT)) > room;
  for (let place = 0; place < cut.length && over(); place += 1) {
    for (let letters = [...parts[place]].length - 1; letters > 0 && over(); letters -= 1) {
      cut[place] = shortened(parts[place], letters);
    }
  }
  return cut.join(JOINT);
}

// The last letters of a single long name may tell it apart from others, so the cut is in its middle.
function shortened(text, letters) {
  const all = [...text];
  const tail = letters > 8 ? Math.floor(letters / 3) : 0;
  return `${all.slice(0, letters - tail).join("")}…${tail ? all.slice(-tail).join("") : ""}`;
}

// charges: [{at, total}], the limit as a dashed line.
export function staircase(charges, limit, unit) {
  const [width, height, bottom, right] = window.innerWidth < NARROW ? [360, 200, 30, 6] : [720, 220, 30, 14];
  const shares = [0, 0.5, 1];
  const left = Math.max(...shares.map((share) => widthOf(`${amount(limit * share)} ${unit}`))) + 14;
  const first = charges[0]?.at ?? 0;
  const last = Math.max(charges.at(-1)?.at ?? 1, first + 1);
  const x = (at) => left + ((at - first) / (last - first)) * (width - left - right);
  const y = (total) => height - bottom - (total / (limit * 1.08)) * (height - bottom - 12);
  let path = `M${left} ${y(0)}`;
  for (const charge of charges) path += `H${x(charge.at).toFixed(1)}V${y(charge.total).toFixed(1)}`;
  path += `H${width - right}`;
  const spent = charges.at(-1)?.total ?? 0;
  const ticks = shares.map((share) => [
    svg("text", { x: left - 8, y: y(limit * share) + 4, class: "value" }, `${amount(limit * share)} ${unit}`),
    svg("line", { x1: left, x2: width - right, y1: y(limit * share), y2: y(limit * share), class: share === 1 ? "limit" : "grid" }),
  ]);
  const moment = (at) => new Date(at * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Spending over time: ${amount(spent)} of ${amount(limit)} ${unit} spent in ${charges.length} charges` },
      ticks, svg("path", { d: `${path}V${y(0)}H${left}Z`, class: "area" }), svg("path", { d: path, class: "stair" }),
      svg("text", { x: left, y: height - 8, class: "moment" }, charges.length ? moment(first) : ""),
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
