// The page of what leaves: a choice shows its file at once, and the whole of it can be copied.

const form = document.querySelector("[data-share]");
form?.addEventListener("change", () => form.requestSubmit());
form?.querySelector("[data-share-look]")?.setAttribute("hidden", "");

for (const button of document.querySelectorAll("[data-share-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const { href } = document.querySelector(button.dataset.shareCopy);
    try {
      const answer = await fetch(href, { headers: { accept: "application/json" } });
      await navigator.clipboard.writeText((await answer.json()).text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy failed. Download it instead.";
    }
  });
}
