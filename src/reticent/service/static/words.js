// Numbers and guarantees in words.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value, error) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(error || value);
  if (Math.abs(value) >= 1000 || size >= 100) return WHOLE.format(value);
  if (value === 0) return "0";
  const digits = error ? Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(error)))) : null;
  return digits === null ? String(Number(value.toPrecision(4))) : value.toFixed(digits);
}

// A bound is rounded up, to two digits: it must stay one.
export function plusMinus(error) {
  if (error === 0) return "0";
  if (error >= 100) return WHOLE.format(Math.ceil(error));
  const digits = Math.max(0, 1 - Math.floor(Math.log10(error)));
  return (Math.ceil(error * 10 ** digits - 1e-9) / 10 ** digits).toFixed(digits);
}

export function amount(value) {
  if (value === 0) return "0";
  return value >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(2).replace("e-", " × 10⁻").replace(/⁻(\d+)$/, (_, d) => "⁻" + [...d].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join(""));
}

export function percent(share) {
  if (share > 0 && share < 1e-5) return "< 0.001%";
  return `${Number((100 * share).toPrecision(3))}%`;
}

export function time(seconds) {
  return new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { dateStyle: "medium" });
}

// The guarantee of an answer, as a sentence anyone can read.
export function sentence(reply) {
  const { result } = reply;
  if (reply.kind === "table") {
    const bounds = result.errors.flat().filter((error) => error !== null);
    if (!bounds.length) return "No bound is certified for these numbers: they are the model's best guess.";
    const rest = result.certified ? "" : " Values without ± are the model's best guess.";
    const together = result.rows.length > 1 ? "all of these numbers are within the stated ± of the truth at once" : "this number is within the stated ± of the truth";
    return `With ${percent(result.confidence)} probability, ${together}.${rest}`;
  }
  if (reply.kind === "models") {
    if (!result.models.every((model) => model.certified)) return "Some models have no certified bound: they are fitted to the best guess of the table.";
    const worst = Math.max(...result.models.map((model) => model.error));
    return `With ${percent(Math.min(...result.models.map((model) => model.confidence)))} probability, no other coefficients of their size would lower the mean loss on the table by more than ${plusMinus(worst)}.`;
  }
  if (!result.certified) return "No bound is certified for this number: it is the model's best guess.";
  return `With ${percent(result.confidence)} probability, the truth lies within ±${plusMinus(result.error)} of this answer.`;
}
