// Prints what the build weighs (gzip) and fails above the budget: shell 90 kB, all JavaScript 260 kB.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const BUDGET = { shell: 90_000, all: 260_000 };
const files = readdirSync(join(dist, "assets")).filter((name) => name.endsWith(".js"));
const text = Object.fromEntries(files.map((name) => [name, readFileSync(join(dist, "assets", name))]));
const size = Object.fromEntries(files.map((name) => [name, gzipSync(text[name], { level: 9 }).length]));

// The shell is the entry and everything it imports statically: what must arrive before the first paint.
const entry = /assets\/([^"]+\.js)/.exec(readFileSync(join(dist, "index.html"), "utf8"))?.[1];
const shell = new Set();
const visit = (name) => {
  if (shell.has(name) || !(name in text)) return;
  shell.add(name);
  for (const match of text[name].toString().matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g))
    visit(match[1]);
};
visit(entry);

const sum = (names) => names.reduce((total, name) => total + size[name], 0);
const kb = (bytes) => `${(bytes / 1000).toFixed(1)} kB`.padStart(9);
for (const name of [...files].sort((a, b) => size[b] - size[a]))
  console.log(kb(size[name]), shell.has(name) ? "shell" : "lazy ", name);
const totals = { shell: sum([...shell]), all: sum(files) };
let failed = false;
for (const [key, limit] of Object.entries(BUDGET)) {
  const over = totals[key] > limit;
  failed ||= over;
  console.log(`${key.padEnd(6)}${kb(totals[key])} of ${kb(limit)} gz ${over ? "TOO LARGE" : "ok"}`);
}
process.exit(failed ? 1 : 0);
