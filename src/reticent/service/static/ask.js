// The view where questions are asked: clicked together or written as SQL, free or with a wanted error.

import * as api from "./api.js";
import { bodyOf, newQuestion, numeric, sqlOf, wordsOf } from "./builder.js";
import { filterControls } from "./filters.js";
import { busy, debounce, field, h, notice, refusal, say, show } from "./dom.js";
import { resultView } from "./result.js";
import { amount, number, percent } from "./words.js";

// Refusals that the same question would meet again.
const FINAL = new Set(["question", "too-complex", "request", "budget"]);

function positive(text) {
  const value = Number(text.endsWith("%") ? text.slice(0, -1) || NaN : text);
  return Number.isFinite(value) && value > 0;
}

export function askView(view, state) {
  const { table } = state;
  const question = newQuestion();
  let mode = "build";
  let asked = 0;
  let answered = null; // {key, words, article} of the answer that is shown
  let refused = null; // {key, final} of the request whose refusal is shown
  const sql = h("textarea", { rows: 7, spellcheck: "false", autocapitalize: "off", class: "code" });
  const preview = h("pre", { class: "code preview", tabindex: "0", "aria-label": "The question as SQL" });
  const summary = h("p", { class: "summary", "aria-live": "polite" });
  const columns = h("div", { class: "columns" });
  const builder = h("div", null);
  const price = h("div", { class: "price", "aria-live": "polite" });
  const answer = h("div", { class: "answer" });
  const button = h("button", { type: "submit", class: "primary" }, "Ask");
  const free = h("input", { type: "radio", name: "precision", id: "p-free", checked: true });
  const bound = h("input", { type: "radio", name: "precision", id: "p-bound" });
  const wanted = h("input", { type: "text", size: "10", inputmode: "decimal", "aria-label": "Wanted error" });
  const unit = h("span", null);

  const records = () => mode === "build" && question.measure === "count";

  function request() {
    const body = mode === "sql" ? { sql: sql.value.trim() } : bodyOf(question, table);
    if (bound.checked) {
      const text = wanted.value.trim();
      body.error = text.endsWith("%") ? text : Number(text);
    }
    return body;
  }

  // Why this cannot be asked: {text, wrong}, where what is only missing is not wrong; null if it can.
  function obstacle() {
    const text = wanted.value.trim();
    if (bound.checked && text === "") return { text: "Enter the largest acceptable error.", wrong: false };
    if (bound.checked && !positive(text)) {
      const range = records() ? `a number of ${table.unit}s above 0` : mode === "sql" ? "a number above 0, or a percentage such as 1%" : `a number above 0, in units of ${question.measure}`;
      return { text: `${text} is not an error; enter ${range}${/\d,\d/.test(text) ? ", with a decimal point and no commas" : ""}.`, wrong: true };
    }
    return mode === "sql" && sql.value.trim() === "" ? { text: "Write a statement.", wrong: false } : null;
  }

  // What is asked, whatever its precision.
  function identity() {
    return JSON.stringify(mode === "sql" ? { sql: sql.value.trim() } : bodyOf(question, table));
  }

  // An answer stands open only under its own question.
  function placeAnswer() {
    if (answered === null) return;
    const folded = answer.querySelector("details.earlier");
    if (answered.key === identity()) {
      if (folded) show(answer, answered.article);
    } else if (!folded) {
      show(answer, h("details", { class: "earlier card" }, h("summary", null, `Answer to an earlier question: ${answered.words}`), answered.article));
    }
  }

  function changed() {
    placeAnswer();
    if (mode === "build") {
      summary.textContent = wordsOf(question, table);
      preview.textContent = sqlOf(question, table);
    }
    unit.textContent = records() ? `${table.unit}s` : mode === "sql" ? "(number in the column's unit, or percent)" : `in units of ${question.measure}`;
    if (wanted.dataset.own !== "yes") wanted.value = suggestion();
    button.textContent = "Ask";
    const hindered = obstacle();
    const same = refused !== null && refused.key === JSON.stringify(request());
    if (refused !== null && !same) {
      refused = null;
      show(answer);
    }
    button.disabled = hindered !== null || (same && refused.final);
    wanted.setAttribute("aria-invalid", String(hindered?.wrong ?? false));
    if (hindered) return show(price, h("p", { class: hindered.wrong ? "wrong" : "hint" }, hindered.text));
    if (same && bound.checked) return show(price);
    if (!bound.checked) return show(price, h("p", { class: "hint" }, "Free: the best answer from existing measurements. Nothing is spent."));
    show(price, busy("Asking for the price …"));
    quote();
  }

  // One record in a hundred, or a hundredth of the column's range.
  function suggestion() {
    if (records()) return Math.max(1, Math.round(table.records * 0.01));
    if (mode === "sql") return "1%";
    const edges = table.domain.find((a) => a.name === question.measure).declaration.edges;
    return edges ? Number(((edges.at(-1) - edges[0]) / 100).toPrecision(2)) : 0.1;
  }

  const quote = debounce(async () => {
    const body = request();
    const current = () => bound.checked && JSON.stringify(request()) === JSON.stringify(body);
    if (!bound.checked || obstacle() || refused !== null) return;
    try {
      const cost = await api.post(`/v1/tables/${table.name}/cost`, body);
      if (!current()) return;
      show(price, priced(cost));
      button.textContent = cost.free ? "Ask (free)" : !cost.affordable ? "Not enough budget" : `Pay ${amount(cost.price)} ${state.symbol} and ask`;
      button.disabled = !cost.affordable;
    } catch (error) {
      if (!current() || refused !== null) return;
      show(price, refusal(error));
      button.disabled = true;
    }
  }, 350);

  function priced(cost) {
    if (cost.free) return h("p", { class: "good" }, "Free: existing measurements are precise enough.");
    if (!cost.affordable) {
      return notice("warn", "Not enough budget left", `This would cost ${state.money(cost.price)}; ${state.money(cost.remaining)} is left. Allow a larger error, or ask for the free answer.`);
    }
    return h("dl", { class: "quote" },
      h("div", null, h("dt", null, "Price"), h("dd", null, `${amount(cost.price)} ${state.symbol}`, h("small", null, `${percent(cost.price / state.budget.limit)} of the budget`))),
      h("div", null, h("dt", null, "Share of the remaining budget"), h("dd", null, percent(cost.price / cost.remaining))),
      h("div", null, h("dt", null, "Left afterwards"), h("dd", null, `${amount(cost.remaining - cost.price)} ${state.symbol}`, h("small", null, `${percent((cost.remaining - cost.price) / state.budget.limit)} of the budget`))));
  }

  async function submit(event) {
    event.preventDefault();
    if (button.disabled) return; // Ctrl + Enter does no more than the button
    const body = request();
    const mine = (asked += 1);
    const words = mode === "sql" ? body.sql : wordsOf(question, table);
    const key = identity();
    answered = refused = null;
    show(answer, busy("Asking …"));
    button.disabled = true;
    try {
      const reply = await api.ask(table.name, body);
      if (mine !== asked) return;
      answered = { key, words, article: resultView(reply, words, table, state.money) };
      show(answer, answered.article);
      say(`Answered. ${reply.guarantee}`);
      answer.querySelector("h2")?.focus({ preventScroll: false });
      if (body.error) await state.refresh();
    } catch (error) {
      if (mine !== asked) return;
      refused = { key: JSON.stringify(body), final: FINAL.has(error.kind) };
      show(answer, error.kind === "budget" ? notice("warn", error.problem.title, error.problem.detail, "Free answers remain: choose “Best free answer”.") : refusal(error));
    } finally {
      changed();
    }
  }

  function setMode(next) {
    if (next === "sql" && mode === "build") sql.value = sqlOf(question, table);
    mode = next;
    wanted.dataset.own = "";
    show(builder, tabs(), mode === "sql"
      ? field("SQL", sql, `Aggregates such as COUNT, AVG, MEDIAN, STDDEV and CORR, with conditions, groups, CASE, subqueries, ROLLUP and window functions, over this table; EXPLAIN shows what a statement would cost. The error is in the unit of the column shown: ${table.unit}s for counts. 1% is a hundredth of the range.`)
      : [measure(), summary, h("details", { class: "as-sql" }, h("summary", null, "As SQL"), preview)]);
    columns.classList.toggle("reference", mode === "sql");
    changed();
  }

  function tabs() {
    const tab = (name, label) => h("button", {
      type: "button", role: "tab", "aria-selected": String(mode === name), tabindex: mode === name ? "0" : "-1", id: `tab-${name}`,
      onclick: () => { setMode(name); document.getElementById(`tab-${name}`).focus(); },
      onkeydown: (event) => { if (event.key.startsWith("Arrow")) { event.preventDefault(); setMode(name === "sql" ? "build" : "sql"); document.getElementById(`tab-${mode}`).focus(); } },
    }, label);
    return h("div", { class: "tabs", role: "tablist", "aria-label": "How to ask" }, tab("build", "Build"), tab("sql", "SQL"));
  }

  function measure() {
    const options = [["count", `Number of ${table.unit}s`], ...table.domain.filter(numeric).map((a) => [a.name, `Average of ${a.name}`])];
    return field("What", h("select", { onchange: (event) => { question.measure = event.target.value; wanted.dataset.own = ""; changed(); } },
      options.map(([value, label]) => h("option", { value, selected: value === question.measure }, label))));
  }

  for (const control of [free, bound]) control.addEventListener("change", changed);
  wanted.addEventListener("input", () => { wanted.dataset.own = "yes"; bound.checked = true; changed(); });
  sql.addEventListener("input", changed);
  sql.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); });
  const form = h("form", { class: "card ask", onsubmit: submit, "aria-label": "Question" }, builder,
    h("fieldset", { class: "precision" }, h("legend", null, "How precise"),
      h("div", { class: "choice" }, free, h("label", { for: "p-free" }, "Best free answer")),
      h("div", { class: "choice" }, bound, h("label", { for: "p-bound" }, "Error at most ±"), wanted, unit, h("span", { class: "quiet" }, ` with ${percent(table.confidence)} confidence`))),
    price, h("div", { class: "row" }, button, h("span", { class: "hint keys" }, "Or press Ctrl + Enter.")));
  show(columns, filterControls(table, question, changed));
  show(view, h("h1", { class: "hidden-text" }, "Ask a question"),
    h("div", { class: "split" }, h("aside", { "aria-label": "The table" }, about(table), columns), h("div", { class: "work" }, form, answer)));
  show(answer, h("div", { class: "empty card" }, h("p", null, "The answer will appear here, with a bar for each number and a line for its certified error."),
    h("p", { class: "hint" }, "Choose columns on the left to break the count down, open a column to restrict it, then press Ask.")));
  setMode("build");
}

function about(table) {
  return h("section", { class: "about" }, h("h2", null, table.title),
    h("p", { class: "facts" }, `${number(table.records)} ${table.unit}s · ${table.attributes} columns`),
    h("details", null, h("summary", null, "The guarantee for the people in the table"), h("p", null, table.promise)));
}
