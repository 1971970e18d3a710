// The HTTP API: one token, one function. The token lives in this tab only.

const PLACE = "reticent-token";

export class Refused extends Error {
  constructor(problem, status) {
    super(problem.detail ?? "The server refused");
    this.problem = problem;
    this.status = status;
  }
  get kind() {
    return (this.problem.type ?? "").split(":").pop();
  }
}

export const token = {
  get: () => sessionStorage.getItem(PLACE),
  set: (text) => sessionStorage.setItem(PLACE, text),
  clear: () => sessionStorage.removeItem(PLACE),
};

async function request(method, path, body, headers = {}) {
  const options = { method, headers: { Authorization: `Bearer ${token.get()}`, ...headers }, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refused({ type: "network", title: "The server cannot be reached", detail: "Check the connection and try again." }, 0);
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ title: "The server refused", detail: `Status ${response.status}` }));
    if (response.status === 401) document.dispatchEvent(new CustomEvent("signed-out"));
    throw new Refused(problem, response.status);
  }
  return response;
}

export const get = async (path) => (await request("GET", path)).json();
export const post = async (path, body, headers) => (await request("POST", path, body ?? {}, headers)).json();
export const put = async (path, body) => (await request("PUT", path, body)).json();
export const remove = async (path) => (await request("DELETE", path)).json();
export const blob = async (path) => (await request("GET", path)).blob();

// A paid question keeps its key until it is answered: a lost connection cannot charge twice.
export async function ask(table, body) {
  const key = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  const headers = body.error ? { "Idempotency-Key": key } : {};
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await post(`/v1/tables/${table}/ask`, body, headers);
    } catch (error) {
      const again = error.status === 0 || error.kind === "busy" || error.kind === "restarting" || error.kind === "rate";
      if (!again || attempt === 3) throw error;
      await new Promise((resolve) => setTimeout(resolve, 600 * 2 ** attempt));
    }
  }
}
