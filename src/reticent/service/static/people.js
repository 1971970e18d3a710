// The custodian's list of people: tokens, roles, caps.

import * as api from "./api.js";
import { STACKED, busy, cell, dialog, field, h, refusal, say, show } from "./dom.js";
import { amount, day, percent } from "./words.js";

export async function peopleView(view, state) {
  const list = h("div", null, busy("Loading …"));
  const problem = h("div", { "aria-live": "polite" });
  const caps = `/v1/tables/${state.table.name}/caps`;
  const several = state.me.tables.length > 1;

  async function attempt(action) {
    show(problem);
    try {
      await action();
      await load();
    } catch (error) {
      show(problem, refusal(error));
    }
  }

  async function load() {
    const [{ tokens }, bounds] = await Promise.all([api.get("/v1/tokens"), api.get(caps)]);
    const spent = new Map(bounds.caps.map((entry) => [entry.analyst, entry]));
    show(list, h("div", { class: "wide card", tabindex: "0", role: "region", "aria-label": "People with tokens" }, h("table", STACKED.table,
      h("thead", STACKED.group, h("tr", STACKED.row, ["Name", "Role", several ? "Tables" : null, "Since", "Until", "Spent", `Cap, in ${state.symbol}`, ""].filter((name) => name !== null).map((name) => h("th", { scope: "col", role: "columnheader", class: name === "Spent" ? "number" : null }, name || h("span", { class: "hidden-text" }, "Actions"))))),
      h("tbody", STACKED.group, tokens.map((person) => line(person, spent.get(person.name)))))));
  }

  function line(person, account) {
    const ended = person.revoked !== null || (person.expires !== null && person.expires * 1000 < Date.now());
    const until = person.revoked ? `revoked ${day(person.revoked)}` : person.expires ? day(person.expires) : "revoked";
    return h("tr", { role: "row", class: ended ? "ended" : null },
      h("th", { scope: "row", role: "rowheader" }, person.name), h("td", cell("Role"), person.role), several ? h("td", cell("Tables"), person.tables === null ? "all" : person.tables.map((name) => state.titles.get(name) ?? name).join(", ")) : null, h("td", cell("Since"), day(person.created)),
      h("td", cell("Until"), person.revoked || person.expires ? until : "no end"),
      h("td", cell("Spent", "number"), account ? h("span", null, `${amount(account.spent)} ${state.symbol}`, h("small", null, share(account.spent))) : "–"),
      h("td", cell("Cap"), account && !ended ? cap(person, account) : "–"),
      h("td", cell(""), ended ? null : h("div", { class: "row" },
        h("button", { type: "button", class: "plain", "aria-label": `New token for ${person.name}`, onclick: () => renew(person) }, "New token"),
        h("button", { type: "button", class: "plain danger", "aria-label": `Revoke ${person.name}`, onclick: () => revoke(person) }, "Revoke"))));
  }

  function share(value) {
    return `${percent(value / state.budget.limit)} of the budget`;
  }

  function cap(person, account) {
    const told = h("small", null, account.cap === null ? "" : share(account.cap));
    const input = h("input", { type: "number", min: 0, step: "any", class: "narrow", value: account.cap === null ? "" : Number(account.cap.toPrecision(4)), placeholder: "no cap", "aria-label": `Cap of ${person.name}`, title: `In ${state.symbol}` });
    const submit = (event) => {
      event.preventDefault();
      attempt(async () => {
        await api.put(`${caps}/${person.name}`, { amount: input.value === "" ? null : Number(input.value) });
        say(`Cap of ${person.name} set`);
      });
    };
    input.addEventListener("input", () => { told.textContent = input.value === "" ? "no cap" : share(Number(input.value)); });
    return h("form", { class: "row tight", onsubmit: submit }, h("span", null, input, told), h("button", { type: "submit", class: "plain", "aria-label": `Set cap of ${person.name}` }, "Set"));
  }

  async function reveal(person) {
    const text = h("output", { class: "token code", tabindex: "0" }, person.token);
    const body = h("div", null, h("p", null, `This is the token of ${person.name}. It is shown only now: the server keeps a hash.`), text);
    if (await dialog("New token", body, [["Copy and close", "copy", "primary"], ["Close", ""]]) === "copy") await navigator.clipboard?.writeText(person.token).catch(() => {});
  }

  async function renew(person) {
    const sure = await dialog(`New token for ${person.name}?`, h("p", null, "The current token stops working at once."), [["Make a new one", "yes", "primary"], ["Cancel", ""]]);
    if (sure === "yes") attempt(async () => reveal(await api.post(`/v1/tokens/${person.id}/rotate`, {})));
  }

  async function revoke(person) {
    const sure = await dialog(`Revoke ${person.name}?`, h("p", null, "The token stops working at once. Past spending is not refunded."), [["Revoke", "yes", "primary"], ["Cancel", ""]]);
    if (sure === "yes") attempt(() => api.remove(`/v1/tokens/${person.id}`));
  }

  const name = h("input", { name: "name", required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,39}", autocapitalize: "off", placeholder: "a.lovelace" });
  const role = h("select", null, h("option", { value: "analyst" }, "Analyst"), h("option", { value: "custodian" }, "Custodian"));
  const days = h("input", { type: "number", min: 1, max: 3650, placeholder: "no end", inputmode: "numeric" });
  const boxes = state.me.tables.map((table) => h("input", { type: "checkbox", name: "tables", value: table, checked: true, onchange: () => check() }));
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const check = () => boxes[0].setCustomValidity(chosen().length ? "" : "Choose at least one table.");
  const tables = several ? h("fieldset", { class: "tables" }, h("legend", null, "Tables"),
    h("div", { class: "values" }, boxes.map((box) => h("label", { class: "value-choice" }, box, h("span", null, state.titles.get(box.value))))),
    h("p", { class: "hint" }, "All of them: every table of your own token, also later ones.")) : null;
  const submit = (event) => {
    event.preventDefault();
    attempt(async () => {
      const some = chosen().length < boxes.length ? { tables: chosen() } : {};
      const made = await api.post("/v1/tokens", { name: name.value.trim(), role: role.value, days: days.value ? Number(days.value) : null, ...some });
      name.value = "";
      await load();
      await reveal(made);
    });
  };
  show(view, h("h1", null, "Analysts"), h("p", { class: "lead" }, "People who may ask. They share one budget; a cap limits what one person may spend."),
    h("form", { class: "card", onsubmit: submit, "aria-label": "Add a person" }, h("h2", null, "Add a person"),
      h("div", { class: "fields" }, field("Name", name, "Lower-case letters, digits, dot, dash."), field("Role", role), field("Valid for, in days", days, "Days until the token expires.")), tables,
      h("button", { type: "submit", class: "primary" }, "Create token")), problem, list);
  await load().catch((error) => show(list, refusal(error)));
}
