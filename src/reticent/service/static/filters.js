// The columns of the public domain: a switch to group by each, and its values to restrict it.

import { known } from "./builder.js";
import { h, show } from "./dom.js";

const SHOWN = 12;

export function filterControls(table, question, changed) {
  return [
    h("h3", { id: "columns-title" }, "Columns"),
    h("ul", { class: "attributes", "aria-labelledby": "columns-title" }, table.domain.map((attribute) => column(attribute, question, changed))),
  ];
}

function column(attribute, question, changed) {
  const group = h("button", { type: "button", class: "toggle", "aria-pressed": "false", "aria-label": `Group by ${attribute.name}`,
    onclick: () => {
      const on = !question.groups.includes(attribute.name);
      question.groups = on ? [...question.groups, attribute.name] : question.groups.filter((name) => name !== attribute.name);
      group.setAttribute("aria-pressed", String(on));
      changed();
    } }, "Group");
  const count = h("span", { class: "count" });
  const tell = () => {
    const codes = question.filters.get(attribute.name) ?? [];
    show(count, codes.length ? h("span", { class: "active" }, `${codes.length} of ${attribute.labels.length}`) : `${known(attribute)} ${attribute.ordered ? "bins" : "values"}`);
  };
  tell();
  const values = h("details", null,
    h("summary", { "data-restrict": attribute.name }, h("span", { class: "hidden-text" }, "Restrict "), h("span", { class: "name" }, attribute.name), count),
    choices(attribute, question, () => { tell(); changed(); }));
  return h("li", null, values, group);
}

function choices(attribute, question, changed) {
  const boxes = attribute.labels.map((label, code) => {
    const box = h("input", { type: "checkbox", onchange: () => {
      const codes = new Set(question.filters.get(attribute.name) ?? []);
      if (box.checked) codes.add(code); else codes.delete(code);
      question.filters.set(attribute.name, [...codes].sort((a, b) => a - b));
      changed();
    } });
    return h("label", { class: "value-choice" }, box, h("span", null, label));
  });
  const clear = h("button", { type: "button", class: "plain small", onclick: () => {
    question.filters.delete(attribute.name);
    for (const label of boxes) label.firstChild.checked = false;
    changed();
  } }, "All values");
  const list = h("div", { class: "values" }, boxes.slice(0, SHOWN));
  if (boxes.length > SHOWN) {
    const more = h("button", { type: "button", class: "plain small", onclick: () => { list.append(...boxes.slice(SHOWN)); more.remove(); } }, `Show all ${boxes.length}`);
    return h("fieldset", { class: "restrict" }, h("legend", { class: "hidden-text" }, `Values of ${attribute.name}`), list, more, clear);
  }
  return h("fieldset", { class: "restrict" }, h("legend", { class: "hidden-text" }, `Values of ${attribute.name}`), list, clear);
}
