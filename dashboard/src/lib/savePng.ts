/** PNG export of an element: a clone with computed styles inside an SVG, canvases as images. */
import { download } from "./downloadFile";

const SKIP = new Set(["transition", "animation", "cursor", "backdrop-filter"]);

function inline(source: Element, target: Element): void {
  if (source instanceof HTMLElement || source instanceof SVGElement) {
    const computed = getComputedStyle(source);
    let text = "";
    for (const name of Array.from(computed)) {
      const value = computed.getPropertyValue(name);
      // A picture cannot be scrolled.
      const fixed = name.startsWith("overflow") && /auto|scroll/.test(value) ? "hidden" : value;
      if (!SKIP.has(name)) text += `${name}:${fixed};`;
    }
    target.setAttribute("style", text);
  }
  Array.from(source.children).forEach((child, index) => {
    const twin = target.children[index];
    if (twin) inline(child, twin);
  });
}

function freezeCanvases(source: Element, target: Element): void {
  const twins = target.querySelectorAll("canvas");
  source.querySelectorAll("canvas").forEach((canvas, index) => {
    const twin = twins[index];
    if (!twin) return;
    const image = document.createElement("img");
    image.src = canvas.toDataURL();
    image.setAttribute("style", twin.getAttribute("style") ?? "");
    twin.replaceWith(image);
  });
}

async function asDataUrl(url: string): Promise<string> {
  const blob = await (await fetch(url)).blob();
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Font faces of the page with embedded files, because an image cannot load any. */
async function fontFaces(): Promise<string> {
  const faces: Promise<string>[] = [];
  for (const sheet of Array.from(document.styleSheets)) {
    for (const rule of Array.from(sheet.cssRules)) {
      if (!(rule instanceof CSSFontFaceRule)) continue;
      const source = /url\("?([^")]+)"?\)/.exec(rule.style.getPropertyValue("src"))?.[1];
      if (!source) continue;
      const address = new URL(source, sheet.href ?? window.location.href).href;
      const family = `${rule.style.getPropertyValue("font-family")};font-weight:${rule.style.getPropertyValue("font-weight")}`;
      faces.push(
        asDataUrl(address).then(
          (data) => `@font-face{font-family:${family};src:url(${data})}`,
          () => "",
        ),
      );
    }
  }
  return (await Promise.all(faces)).join("");
}

export async function savePng(element: HTMLElement, name: string): Promise<void> {
  const { width, height } = element.getBoundingClientRect();
  const clone = element.cloneNode(true) as HTMLElement;
  inline(element, clone);
  freezeCanvases(element, clone);
  for (const control of clone.querySelectorAll("[data-no-export]")) control.remove();
  clone.style.margin = "0";
  const body = new XMLSerializer().serializeToString(clone);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><foreignObject width="100%" height="100%"><style xmlns="http://www.w3.org/1999/xhtml">${await fontFaces()}</style>${body}</foreignObject></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = 2;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--bg");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  context.drawImage(image, 0, 0);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob) download(name, blob);
}
