// The custodian's account: spending over time, who spent it, certificates, and the ledger's own proof.

import * as api from "./api.js";
import { gauge, staircase } from "./chart.js";
import { STACKED, busy, cell, h, notice, refusal, show } from "./dom.js";
import { amount, percent } from "./words.js";

export async function accountView(view, state) {
  const base = `/v1/tables/${state.table.name}`;
  const place = h("div", { class: "stack" }, busy("Loading the account …"));
  show(view, h("h1", null, "Account"), h("p", { class: "lead" }, "The amount spent, the guarantees, and the state of the ledger."), place);
  try {
    const [spending, certified] = await Promise.all([api.get(`${base}/spending`), api.get(`${base}/certificates`), state.refresh()]);
    show(place, budgetCard(state, spending), spendingCard(spending, state), certificatesCard(certified.certificates), ledgerCard(base, state));
  } catch (error) {
    show(place, refusal(error));
  }
}

function budgetCard({ budget, symbol, table }) {
  return h("section", { class: "card" }, h("h2", null, "Budget"),
    h("dl", { class: "quote" }, [["Spent", budget.spent], ["Left", budget.remaining], ["In all", budget.limit]].map(([name, value]) =>
      h("div", null, h("dt", null, name), h("dd", null, `${amount(value)} ${symbol}`, h("small", null, percent(value / (budget.limit || 1))))))),
    gauge(budget.spent, budget.limit, "Budget of the table spent"),
    h("p", { class: "hint" }, `Spent so far means ${budget.guarantee}.`), h("p", null, table.promise));
}

function spendingCard(spending, { symbol }) {
  const byPerson = new Map();
  for (const charge of spending.charges) byPerson.set(charge.analyst ?? "first measurements and certificates", (byPerson.get(charge.analyst ?? "first measurements and certificates") ?? 0) + charge.cost);
  const entries = [...byPerson].map(([label, value]) => ({ label, value })).sort((a, b) => b.value - a.value);
  return h("section", { class: "card" }, h("h2", null, "Spending over time"),
    spending.charges.length ? [staircase(spending.charges, spending.limit, symbol), h("h3", null, "By whom"), h("div", { class: "wide" },
      h("table", STACKED.table, h("thead", STACKED.group, h("tr", STACKED.row, [["Who", null], ["Spent", "number"], ["Share of the budget", "number"]].map(([name, style]) => h("th", { scope: "col", role: "columnheader", class: style }, name)))),
        h("tbody", STACKED.group, entries.map((entry) => h("tr", STACKED.row, h("th", { scope: "row", role: "rowheader" }, entry.label),
          h("td", cell("Spent", "number"), `${amount(entry.value)} ${symbol}`), h("td", cell("Share of the budget", "number"), percent(entry.value / spending.limit)))))))]
      : h("p", { class: "empty" }, "Nothing has been spent."));
}

function certificatesCard(certificates) {
  return h("section", { class: "card" }, h("h2", null, "Certificates"), certificates.length
    ? h("ul", { class: "certificates" }, certificates.map((certificate) => h("li", null, h("p", null, certificate.sentence),
        h("p", { class: "hint" }, `Snapshot ${certificate.snapshot.slice(0, 12)} · ${certificate.sets.length} sets · ${certificate.bound === null ? "no finite bound" : `bound ${percent(certificate.bound)} of the table`}`))))
    : h("p", { class: "empty" }, "Nothing is certified yet."));
}

function ledgerCard(base, { symbol }) {
  const result = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    show(result, busy("Reading the chain from first event to last …"));
    try {
      const found = await api.post(`${base}/verification`);
      show(result, found.verified
        ? h("div", { class: "notice good-notice" }, h("strong", null, "The ledger is intact"), h("p", null, `${found.events} events, all hashes correct, ${amount(found.spent)} ${symbol} spent, ${found.anchored ? "in step with its anchor" : "but there is no anchor to compare with"}.`))
        : notice("bad", "The ledger is damaged", found.problem));
    } catch (error) {
      show(result, refusal(error));
    } finally {
      button.disabled = false;
    }
  } }, "Verify now");
  return h("section", { class: "card" }, h("h2", null, "Ledger"), h("p", null, "Every charge is an entry in a hash chain, written before its noise was drawn."), h("div", { class: "row" }, button), result);
}
