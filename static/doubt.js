// Marks the place of a doubt in arguments that still stream. Where the browser cannot highlight
// a piece of a text that grows, the sentence below it says the same.

export function mark() {
  if (!globalThis.CSS?.highlights) return;
  const ranges = [...document.querySelectorAll(".doubt[data-offset]")].map(place).filter(Boolean);
  if (ranges.length) CSS.highlights.set("doubt", new Highlight(...ranges));
  else CSS.highlights.delete("doubt");
}

// A range over `data-length` characters from `data-offset` on, across the nodes of the text.
function place(doubt) {
  const text = document.getElementById(doubt.id.replace("doubt-", "text-"));
  const from = Number(doubt.dataset.offset);
  const to = from + Number(doubt.dataset.length);
  if (!text) return null;
  const range = new Range();
  let before = 0;
  let begun = false;
  const nodes = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    const after = before + node.length;
    if (!begun && from < after) {
      range.setStart(node, from - before);
      begun = true;
    }
    if (begun && to <= after) {
      range.setEnd(node, to - before);
      return range;
    }
    before = after;
  }
  return null; // The text has not come so far yet: it is tried again when it grows.
}

document.addEventListener("htmx:after:swap", mark);
mark();
