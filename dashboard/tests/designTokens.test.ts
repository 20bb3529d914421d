import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { SCHEDULERS as STAND_INS } from "../dev/fakeModel.mjs";
import { contrast, distance, hex, inkOn, mix, rgb } from "../src/lib/color";
import { correlationColor } from "../src/lib/colorScales";
import { type ThemeName, TOKENS } from "../src/lib/designTokens";

const themes: ThemeName[] = ["dark", "light"];

/** The looks of the published schedulers from their one home, the files that register them; the API hands them on. */
const HOME = resolve(__dirname, "../../src/hybrid_scheduler/schedulers");
const REGISTERED =
  /@register\(\s*"(\w+)",[^@]*?look=Look\("(#\w{6})", "(#\w{6})", "(.+?)", "(.+?)"\),\s+published=True/g;
const SCHEDULERS = readdirSync(HOME)
  .filter((file) => file.endsWith(".py"))
  .flatMap((file) => [...readFileSync(resolve(HOME, file), "utf8").matchAll(REGISTERED)])
  .map(([, name = "", dark = "", light = "", glyph = "", dash = ""]) => ({
    name,
    look: { dark, light, glyph, dash },
  }));

describe("registered scheduler styles", () => {
  it("equal those of the fake server", () => {
    expect(SCHEDULERS.length).toBe(6);
    const home = Object.fromEntries(SCHEDULERS.map(({ name, look }) => [name, look]));
    expect(Object.fromEntries(STAND_INS.map(({ name, look }) => [name, look]))).toEqual(home);
  });
});

describe("tokens", () => {
  const css = readFileSync(resolve(__dirname, "../src/styles/tokens.css"), "utf8").toLowerCase();
  it.each(themes)("%s: the style sheet has the same values", (theme) => {
    const block = css.slice(css.indexOf(`[data-theme="${theme}"]`));
    for (const [name, value] of Object.entries(TOKENS[theme])) {
      expect(block.slice(0, block.indexOf("}"))).toContain(`--${name}: ${value.toLowerCase()};`);
    }
  });
});

describe("contrast", () => {
  for (const theme of themes) {
    const tokens = TOKENS[theme];
    // A glass panel lets at most a tenth of the background through.
    const surfaces = {
      panel: tokens.panel,
      raised: tokens.raised,
      bg: tokens.bg,
      glass: mix(tokens.panel, tokens.bg, 0.1),
    };
    for (const [name, surface] of Object.entries(surfaces)) {
      it.each(["text", "muted", "faint", "ok", "warn", "error", "accent", "lead"] as const)(
        `${theme}: %s on ${name} has a contrast of at least 4.5`,
        (ink) => {
          expect(contrast(tokens[ink], surface)).toBeGreaterThanOrEqual(4.5);
        },
      );
      it.each(["control", "focus"] as const)(`${theme}: %s on ${name} has a contrast of at least 3`, (line) => {
        expect(contrast(tokens[line], surface)).toBeGreaterThanOrEqual(3);
      });
    }
    it(`${theme}: text on the accent colour has a contrast of at least 4.5`, () =>
      expect(contrast(tokens["on-accent"], tokens.accent)).toBeGreaterThanOrEqual(4.5));
    it.each(SCHEDULERS.map((s) => [s.name, s.look[theme]] as const))(
      `${theme}: marks of %s on the panel have a contrast of at least 4.5`,
      (_, color) => {
        expect(contrast(color, tokens.panel)).toBeGreaterThanOrEqual(4.5);
      },
    );
    it(`${theme}: text on every correlation colour has a contrast of at least 4.5`, () => {
      for (let value = -1; value <= 1; value += 0.05) {
        const color = correlationColor(value, theme);
        expect(contrast(color, inkOn(color))).toBeGreaterThanOrEqual(4.5);
      }
    });
  }
});

/** Machado, Oliveira and Fernandes (2009) at full severity, on linear light. */
const EYES: Record<string, number[][]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const toLinear = (c: number) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const toByte = (c: number) => {
  const v = Math.min(1, Math.max(0, c));
  return 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
};
function seenBy(color: string, eye: string): string {
  const linear = rgb(color).map(toLinear);
  const out = (EYES[eye] ?? []).map((line) => toByte(line.reduce((sum, w, i) => sum + w * (linear[i] ?? 0), 0)));
  return hex([out[0] ?? 0, out[1] ?? 0, out[2] ?? 0]);
}

describe("scheduler colours", () => {
  for (const theme of themes) {
    it.each(Object.keys(EYES))(`${theme}, %s vision: differ by an OKLab distance of at least 11`, (eye) => {
      SCHEDULERS.forEach((a, i) => {
        for (const b of SCHEDULERS.slice(i + 1)) {
          const apart = distance(seenBy(a.look[theme], eye), seenBy(b.look[theme], eye));
          expect(apart, `${a.name} and ${b.name}`).toBeGreaterThanOrEqual(11);
        }
      });
    });
  }
});
