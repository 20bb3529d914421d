/** Milliseconds that a message stays on the screen. */
const VISIBLE_MS = 4000;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows a short message at the bottom of the page, which screen readers read as well. */
export function announce(text: string): void {
  const region = document.getElementById("announcer");
  if (!region) return;
  region.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => {
    region.textContent = "";
  }, VISIBLE_MS);
}
