// The hints below the list: one at a time, and each for the last time once "Got it" was pressed. How
// many were read is kept in this browser.

const hints = document.getElementById("hints");

function hint() {
  const sentences = [...hints.querySelectorAll("p")];
  const read = Number(localStorage.getItem("hints-read")) || 0;
  for (const [number, sentence] of sentences.entries()) sentence.hidden = number !== read;
  hints.querySelector("small").textContent = `${read + 1} of ${sentences.length}`;
  hints.hidden = read >= sentences.length;
  return sentences.length;
}

if (hints) {
  const count = hint();
  const [none, next] = hints.querySelectorAll("button");
  const read = (number) => {
    localStorage.setItem("hints-read", number);
    hint();
  };
  none.addEventListener("click", () => read(count));
  next.addEventListener("click", () => read((Number(localStorage.getItem("hints-read")) || 0) + 1));
}
