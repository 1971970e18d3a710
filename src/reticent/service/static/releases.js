// Published releases: download them; a custodian publishes new ones.

import * as api from "./api.js";
import { busy, field, h, refusal, save, say, show } from "./dom.js";
import { number, time } from "./words.js";

const FORMS = { parquet: "Parquet", csv: "CSV", report: "Report", release: "Release file" };

export async function releasesView(view, state) {
  const path = `/v1/tables/${state.table.name}/releases`;
  const list = h("div", { class: "stack" }, busy("Loading the releases …"));
  const problem = h("div", { "aria-live": "polite" });

  async function load() {
    try {
      const { releases } = await api.get(path);
      show(list, releases.length ? releases.map(card) : h("div", { class: "empty card" }, h("p", null, "Nothing has been published on this page yet.")));
    } catch (error) {
      show(list, refusal(error));
    }
  }

  async function fetchFile(release, form, button) {
    button.disabled = true;
    try {
      const ending = { parquet: "parquet", csv: "csv", report: "html", release: "release" }[form];
      save(`${state.table.name}-${release.id}.${ending}`, await api.blob(`${path}/${release.id}/${form}`));
      say("Downloaded");
    } catch (error) {
      show(problem, refusal(error));
    } finally {
      button.disabled = false;
    }
  }

  function card(release) {
    return h("article", { class: "card release" }, h("div", { class: "row between" }, h("h2", null, release.title), h("span", { class: "badge" }, release.id)),
      h("p", { class: "facts" }, `${number(release.rows)} synthetic rows · published ${time(release.at)} by ${release.by}`),
      h("p", { class: "hint" }, `Guarantee: ${release.privacy}`),
      h("p", { class: "hint" }, "The release file answers questions for free: ", h("code", null, `reticent shell ${state.table.name}-${release.id}.release`)),
      h("div", { class: "row" }, release.formats.map((form) => {
        const button = h("button", { type: "button", "aria-label": `Download ${FORMS[form]} of ${release.title}`, onclick: () => fetchFile(release, form, button) }, FORMS[form]);
        return button;
      })));
  }

  function publishing() {
    const title = h("input", { name: "title", required: true, maxlength: 200, placeholder: "Spring survey, first release" });
    const rows = h("input", { type: "number", min: 1, max: 1000000, value: Math.round(state.table.records), inputmode: "numeric" });
    const submit = async (event) => {
      event.preventDefault();
      show(problem, busy("Writing synthetic rows and the report …"));
      try {
        const made = await api.post(path, { title: title.value, rows: Number(rows.value) });
        show(problem, h("div", { class: "notice good-notice" }, h("strong", null, "Published"), h("p", null, `${made.title} is now open to every analyst of this table.`)));
        title.value = "";
        await load();
      } catch (error) {
        show(problem, refusal(error));
      }
    };
    return h("form", { class: "card", onsubmit: submit, "aria-label": "Publish a release" }, h("h2", null, "Publish what is known"),
      h("p", { class: "hint" }, "Synthetic rows and a report, made from released values only. They are free, because the values are already paid for."),
      h("div", { class: "fields" }, field("Title", title), field("Synthetic rows", rows, `The default is the number of ${state.table.unit}s in the table.`)), h("button", { type: "submit", class: "primary" }, "Publish"));
  }

  show(view, h("h1", null, "Releases"), h("p", { class: "lead" }, "Synthetic copies of the table. Anyone may use them without limit."),
    state.me.role === "custodian" ? publishing() : null, problem, list);
  await load();
}
