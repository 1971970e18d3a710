// The page: sign in, then views by address. All state is the token, the table and what a view holds.

import * as api from "./api.js";
import { askView } from "./ask.js";
import { accountView } from "./account.js";
import { gauge } from "./chart.js";
import { busy, field, h, refusal, say, show } from "./dom.js";
import { historyView } from "./history.js";
import { peopleView } from "./people.js";
import { releasesView } from "./releases.js";
import { amount, percent } from "./words.js";

const main = document.getElementById("main");
const top = document.getElementById("top");
const VIEWS = {
  ask: ["Ask", askView], history: ["History", historyView], releases: ["Releases", releasesView],
  analysts: ["Analysts", peopleView, "custodian"], account: ["Account", accountView, "custodian"],
};
const state = { me: null, titles: new Map(), table: null, budget: null };

async function start() {
  if (!api.token.get()) return signIn();
  show(main, busy("Signing in …"));
  try {
    const [me, { tables }] = await Promise.all([api.get("/v1/me"), api.get("/v1/tables")]);
    state.me = me;
    state.titles = titled(tables);
    if (!state.me.tables.length) return show(main, h("p", { class: "pad" }, "This token gives access to no table. Ask the custodian."));
    await choose(state.me.tables.includes(state.table?.name) ? state.table.name : state.me.tables[0]);
  } catch (error) {
    if (error.status !== 401) show(main, h("div", { class: "pad" }, refusal(error), h("button", { type: "button", onclick: start }, "Try again")));
  }
}

// By name; a title that several tables share is followed by the name.
function titled(tables) {
  const shared = (title) => tables.filter((other) => other.title === title).length > 1;
  return new Map(tables.map(({ name, title }) => [name, shared(title) ? `${title} (${name})` : title]));
}

async function choose(name) {
  [state.table, state.budget] = await Promise.all([api.get(`/v1/tables/${name}`), api.get(`/v1/tables/${name}/budget`)]);
  state.symbol = state.budget.unit === "rho" ? "ρ" : "ε";
  state.money = (value) => `${amount(value)} ${state.symbol} (${percent(value / (state.budget.limit || 1))} of the budget)`;
  header();
  route();
}

state.refresh = async () => {
  state.budget = await api.get(`/v1/tables/${state.table.name}/budget`);
  header();
};

function current() {
  const name = location.hash.slice(2);
  const view = VIEWS[name];
  return view && (!view[2] || view[2] === state.me.role) ? name : "ask";
}

function header() {
  const { me, budget, table } = state;
  const names = Object.keys(VIEWS).filter((name) => !VIEWS[name][2] || VIEWS[name][2] === me.role);
  const chosen = current();
  const tables = me.tables.length > 1
    ? h("select", { "aria-label": "Table", onchange: (event) => choose(event.target.value) },
        me.tables.map((name) => h("option", { value: name, selected: name === table.name }, state.titles.get(name))))
    : h("span", { class: "table-name" }, table.title);
  const whole = budget.own_cap ?? budget.limit;
  const left = whole ? Math.min(1, budget.own_remaining / whole) : 0;
  show(top, h("div", { class: "bar" },
    h("a", { class: "brand", href: "#/ask" }, h("img", { src: "/static/mark.svg", alt: "", width: 28, height: 28 }), "Reticent"), tables,
    h("div", { class: "purse", title: budget.guarantee },
      h("span", null, `${percent(1 - left)} ${budget.own_cap === null ? "" : "of your cap "}spent · ${percent(left)} left (${amount(budget.own_remaining)} ${state.symbol})`),
      gauge(1 - left, 1, budget.own_cap === null ? "Privacy budget spent" : "Your share of the privacy budget spent")),
    h("span", { class: "person" }, me.name, h("small", null, me.role)),
    h("button", { type: "button", class: "plain", onclick: signOut }, "Sign out")),
    h("nav", { "aria-label": "Views" }, h("ul", null, names.map((name) =>
      h("li", null, h("a", { href: `#/${name}`, "aria-current": name === chosen ? "page" : null }, VIEWS[name][0]))))));
}

function route() {
  if (!state.me || !state.table) return;
  const name = current();
  header();
  document.title = `${VIEWS[name][0]} · ${state.table.title} · Reticent`;
  const view = h("div", { class: "view" });
  show(main, view);
  window.scrollTo(0, 0);
  VIEWS[name][1](view, state);
}

function signOut() {
  api.token.clear();
  state.me = null;
  signIn();
}

function signIn(error) {
  show(top, h("div", { class: "bar" }, h("span", { class: "brand" }, h("img", { src: "/static/mark.svg", alt: "", width: 28, height: 28 }), "Reticent")));
  document.title = "Sign in · Reticent";
  const input = h("input", { type: "password", name: "token", autocomplete: "off", spellcheck: "false", required: true, placeholder: "rt_…" });
  const problem = h("div", null, error ? refusal(error) : null);
  const submit = async (event) => {
    event.preventDefault();
    api.token.set(input.value.trim());
    show(problem, busy("Signing in …"));
    try {
      await api.get("/v1/me");
      await start();
      say("Signed in");
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    } catch (refused) {
      api.token.clear();
      show(problem, refusal(refused));
      input.focus();
    }
  };
  show(main, h("div", { class: "signin" },
    h("section", null, h("h1", null, "Ask about people without knowing anyone."),
      h("p", { class: "lead" }, "Reticent answers questions about a sensitive table. Each answer states its proven error bound, and all answers together stay within one privacy budget set by the custodian.")),
    h("form", { class: "card", onsubmit: submit, "aria-label": "Sign in" }, h("h2", null, "Sign in"),
      field("Token", input, "The custodian of the data gave it to you. It stays in this tab."), problem,
      h("button", { type: "submit", class: "primary" }, "Sign in"))));
  input.focus();
}

document.addEventListener("signed-out", () => {
  if (state.me) {
    signOut();
    say("Signed out: the token is no longer valid");
  }
});
window.addEventListener("hashchange", () => { route(); main.focus({ preventScroll: true }); });
start();
