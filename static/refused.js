// What the server refuses of a form on a card (arguments that are no JSON, or do not fit) is said below
// its text, until something is typed in the form again. What it says at single fields stays there alone.

const fieldOf = (form) => form.elements.namedItem("arguments") ?? form.elements.namedItem("text");
const placeOf = (form) => form?.querySelector?.(":scope > [id^=refused-]");

document.addEventListener("htmx:after:request", (event) => {
  const { sourceElement: form, response, text } = event.detail.ctx ?? {};
  const place = placeOf(form);
  if (!place || !response || response.raw.ok) return;
  const page = new DOMParser().parseFromString(text ?? "", "text/html");
  const atFields = page.querySelector("hx-partial:not([hx-target='#toasts'])");
  if (atFields && form.elements.namedItem("by")?.value === "form") return;
  place.textContent = (page.querySelector(".toast p") ?? page.querySelector("[role=alert], p"))?.textContent || `Refused (${response.status}).`;
  place.hidden = false;
  fieldOf(form).setAttribute("aria-invalid", "true");
  place.scrollIntoView({ block: "nearest" });
});

document.addEventListener("input", (event) => {
  const form = event.target.form;
  const place = placeOf(form);
  if (!place || place.hidden) return;
  place.hidden = true;
  place.textContent = "";
  fieldOf(form).removeAttribute("aria-invalid");
});
