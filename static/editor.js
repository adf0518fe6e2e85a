// The tool editor: line numbers, the place of a JSON error, the fields of the chosen kind.

for (const coder of document.querySelectorAll("[data-coder]")) {
  const text = coder.querySelector("textarea");
  const numbers = coder.querySelector(".numbers");
  const sentence = coder.parentElement.querySelector("[data-coder-error]");
  let wrong = Number(text.dataset.errorLine) || 0;

  const draw = () => {
    const count = text.value.split("\n").length;
    numbers.replaceChildren(
      ...Array.from({ length: count }, (_, place) => {
        const line = document.createElement("span");
        line.textContent = place + 1;
        if (place + 1 === wrong) line.className = "wrong";
        return line;
      }),
    );
    numbers.scrollTop = text.scrollTop;
  };

  // The server has the last word; this only shows where to look while typing.
  const check = () => {
    wrong = 0;
    let message = "";
    try {
      JSON.parse(text.value);
    } catch (error) {
      message = error.message;
      const position = /position (\d+)/.exec(message);
      const line = /line (\d+)/.exec(message);
      if (line) wrong = Number(line[1]);
      else if (position) wrong = text.value.slice(0, Number(position[1])).split("\n").length;
      else wrong = text.value.split("\n").length;
    }
    sentence.hidden = !message;
    sentence.textContent = message && `Line ${wrong}: ${message.replace(/ in JSON at.*/, "")}`;
    text.setAttribute("aria-invalid", Boolean(message));
    draw();
  };

  text.addEventListener("input", check);
  text.addEventListener("scroll", () => (numbers.scrollTop = text.scrollTop));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.metaKey && !event.ctrlKey) {
      const before = text.value.slice(0, text.selectionStart);
      const indent = /(?:^|\n)([ \t]*)[^\n]*$/.exec(before)[1];
      const deeper = /[{[]\s*$/.test(before) ? "  " : "";
      event.preventDefault();
      text.setRangeText(`\n${indent}${deeper}`, text.selectionStart, text.selectionEnd, "end");
      check();
    }
  });
  draw();
}

function chooseKind() {
  const chosen = document.querySelector("input[name=answered_by]:checked")?.value;
  for (const fields of document.querySelectorAll("fieldset.kind")) fields.hidden = fields.dataset.kind !== chosen;
  const takes = document.querySelector("input[name=takes]:checked")?.value;
  for (const part of document.querySelectorAll("[data-takes]")) part.hidden = !part.dataset.takes.split(" ").includes(takes);
}

document.addEventListener("change", chooseKind);
chooseKind();

// What was typed is not lost by accident.
const form = document.getElementById("tool");
let dirty = false;
form?.addEventListener("input", () => (dirty = true));
form?.addEventListener("submit", () => (dirty = false));
window.addEventListener("beforeunload", (event) => {
  if (dirty) event.preventDefault();
});
