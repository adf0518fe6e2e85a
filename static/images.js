// Images that a form takes: what may come in, and how it stands there until it goes.

export const MOST = 10;
const MOST_BYTES = 5 * 1024 * 1024;
const MOST_TOGETHER = 20 * 1024 * 1024;

// What a file is called, and what the system takes it for, says little: its first bytes do.
async function isImage(file) {
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  return /^(\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF[^]{4}WEBP)/.test(head);
}

// Why `file` cannot go with the `kept` ones of `what` ("a prompt"); "" where it can.
export async function whyNot(file, kept, what) {
  if (!(await isImage(file))) return `${file.name} is not a PNG, JPEG, WebP or GIF. Convert it first.`;
  if (file.size > MOST_BYTES) return `${file.name} is larger than 5 MB. Make it smaller.`;
  if (kept.length >= MOST) return `${what[0].toUpperCase()}${what.slice(1)} takes ${MOST} images.`;
  const together = kept.reduce((sum, one) => sum + one.size, file.size);
  return together > MOST_TOGETHER ? `The images of ${what} may have 20 MB in total. Send fewer.` : "";
}

// The list of files that a field of a form sends.
export function carried(files) {
  const carrier = new DataTransfer();
  for (const file of files) carrier.items.add(file);
  return carrier.files;
}

export function thumb(file, remove) {
  const box = document.createElement("div");
  const image = document.createElement("img");
  const button = document.createElement("button");
  box.className = "thumb";
  box.role = "listitem";
  image.alt = file.name;
  Object.assign(button, { type: "button", textContent: "✕", ariaLabel: `Remove ${file.name}` });
  button.addEventListener("click", remove);
  const reader = new FileReader();
  reader.addEventListener("load", () => (image.src = reader.result));
  reader.readAsDataURL(file);
  box.append(image, button);
  return box;
}
