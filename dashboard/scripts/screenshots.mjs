// Screenshots with Debian's chromium: node scripts/screenshots.mjs URL OUT_FOLDER [path ...]; widths 360, 768, 1440 in both themes.
// WIDTHS=1440 THEMES=dark narrows it down.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [base = "http://127.0.0.1:8099", out = ".shots", ...paths] = process.argv.slice(2);
const widths = (process.env.WIDTHS ?? "360,768,1440").split(",").map(Number);
const themes = (process.env.THEMES ?? "dark,light").split(",");
mkdirSync(out, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
  ],
});
for (const path of paths.length ? paths : ["/compare"]) {
  for (const theme of themes) {
    for (const width of widths) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, reducedMotion: "reduce" });
      await page.addInitScript(() => localStorage.setItem("hs.tour", "done"));
      page.on(
        "console",
        (message) => /error|warning/.test(message.type()) && console.log(`[${message.type()}] ${message.text()}`),
      );
      page.on("response", (r) => r.status() >= 400 && console.log(`${r.status()} ${r.url()}`));
      page.on("pageerror", (error) => console.log(`[pageerror] ${error.message}`));
      await page.goto(`${base}${path}${path.includes("?") ? "&" : "?"}theme=${theme}`);
      await page.waitForTimeout(Number(process.env.WAIT ?? 3000));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) console.log(`${path} ${width}: page is ${wide} px too wide`);
      const name = `${path.split("?")[0].replaceAll("/", "-").replace(/^-/, "")}-${theme}-${width}.png`;
      await page.screenshot({ path: join(out, name), fullPage: true });
      console.log(join(out, name));
      await page.close();
    }
  }
}
await browser.close();
