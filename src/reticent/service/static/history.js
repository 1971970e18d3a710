// Paid answers of the past: free to look at again.

import * as api from "./api.js";
import { STACKED, busy, cell, h, refusal, show } from "./dom.js";
import { resultView } from "./result.js";
import { amount, number, percent, time } from "./words.js";

const PAGE = 25;

export async function historyView(view, state) {
  const everybody = state.me.role === "custodian";
  const rows = h("tbody", STACKED.group);
  const more = h("div", { class: "row" });
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const path = `/v1/tables/${state.table.name}/history`;
  const head = ["When", everybody ? "Who" : null, "Question", "Wanted error", "Price", ""].filter((name) => name !== null);
  const table = h("div", { class: "wide card", tabindex: "0", role: "region", "aria-label": "Paid answers" },
    h("table", STACKED.table, h("thead", STACKED.group, h("tr", STACKED.row, head.map((name) => h("th", { scope: "col", role: "columnheader", class: name === "Price" || name === "Wanted error" ? "number" : null }, name || h("span", { class: "hidden-text" }, "Show"))))), rows));
  const place = h("div", null, busy("Loading the history …"));
  show(view, h("h1", null, "History"), h("p", { class: "lead" }, everybody ? "Every paid answer of every analyst. Free answers are not recorded in the ledger." : "Your paid answers. Showing them again is free."), place, answer);

  async function load(before) {
    try {
      const page = await api.get(`${path}?limit=${PAGE}${before ? `&before=${before}` : ""}`);
      rows.append(...page.entries.map(line));
      show(more, page.next ? h("button", { type: "button", onclick: () => load(page.next) }, "Load older ones") : null);
      show(place, rows.children.length ? [table, more] : h("div", { class: "empty card" }, h("p", null, "There are no paid answers yet."), h("p", { class: "hint" }, "Free answers are not listed, because they follow from public values.")));
    } catch (error) {
      show(place, refusal(error));
    }
  }

  function line(entry) {
    return h("tr", STACKED.row,
      h("td", cell("When"), time(entry.at)), everybody ? h("td", cell("Who"), entry.analyst) : null,
      h("td", cell("Question", "code-cell"), entry.question), h("td", cell("Wanted error", "number"), entry.error === null ? "–" : typeof entry.error === "string" ? entry.error : `± ${number(entry.error)}`),
      h("td", cell("Price", "number"), h("span", null, `${amount(entry.price)} ${state.symbol}`, h("small", null, `${percent(entry.price / state.budget.limit)} of the budget`))),
      h("td", cell(""), h("button", { type: "button", class: "plain", "aria-label": `Show answer ${entry.sequence}`, onclick: () => open(entry) }, "Show")));
  }

  async function open(entry) {
    show(answer, busy("Loading …"));
    try {
      const reply = await api.get(`${path}/${entry.sequence}`);
      show(answer, resultView(reply, entry.question, state.table, state.money));
      answer.querySelector("h2").focus();
    } catch (error) {
      show(answer, refusal(error));
    }
  }
  await load();
}
