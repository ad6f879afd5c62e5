// Changes visual steps without leaving the page: the server does what a button says to the whole form, as it does
// without script, and the form is replaced. Alt with an arrow key moves the step that has the focus.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[name=do]");
  const form = button?.closest("[data-visual]");
  if (!form || button.value === "save" || form.dataset.plain) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form));
  body.set("do", button.value);
  try {
    const response = await fetch(form.action, { method: "POST", body });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("[data-visual]");
    if (!next) throw new Error("no form in the response");
    form.replaceWith(next);
    const focus = button.value.startsWith("add:") ? next.querySelector("[data-step]:last-of-type :is(input:not([type=hidden]), textarea)") : null;
    (focus || next.querySelector("[autofocus]") || next.querySelector("button[name=do]")).focus();
  } catch {
    form.dataset.plain = "true"; // the browser sends it, and shows what comes back
    form.requestSubmit(button);
  }
});

document.addEventListener("keydown", (event) => {
  const step = event.target.closest("[data-step]");
  const what = { ArrowUp: "up", ArrowDown: "down" }[event.key];
  if (!event.altKey || !step || !what) return;
  event.preventDefault();
  step.querySelector(`button[value^="${what}:"]`)?.click();
});
