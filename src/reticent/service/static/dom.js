// Small helpers: elements from plain values, never from markup, so that no text can become code.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function show(parent, ...children) {
  parent.replaceChildren(...children.flat(3).filter(Boolean));
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function notice(kind, title, ...body) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null },
    h("strong", null, title), ...body.map((part) => (typeof part === "string" ? h("p", null, part) : part)));
}

export function refusal(error) {
  const title = error.problem?.title ?? "Something went wrong";
  return notice("bad", title, error.problem?.detail ?? error.message);
}

export function busy(text = "Working …") {
  return h("p", { class: "busy" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
}

export function field(label, control, hint) {
  const id = control.id || `f${Math.random().toString(36).slice(2)}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), control,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null);
}

export function debounce(action, wait) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), wait);
  };
}

// Tables whose rows become cards on narrow screens: laid out as blocks they keep their roles only if these are stated.
export const STACKED = { table: { class: "stacked", role: "table" }, group: { role: "rowgroup" }, row: { role: "row" } };

export function cell(label, style) {
  return { role: "cell", "data-label": label || null, class: style ?? null };
}

// A modal question or message; resolves to what the pressed button says.
export function dialog(title, body, buttons) {
  return new Promise((resolve) => {
    const box = h("dialog", { "aria-labelledby": "dialog-title" },
      h("h2", { id: "dialog-title" }, title), body,
      h("div", { class: "row end" }, buttons.map(([text, value, style]) =>
        h("button", { type: "button", class: style ?? "", onclick: () => box.close(value) }, text))));
    box.addEventListener("close", () => { box.remove(); resolve(box.returnValue); });
    document.body.append(box);
    box.showModal();
  });
}

export function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
