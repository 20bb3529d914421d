/**
 * Design tokens for canvas code, which cannot read CSS variables cheaply, and for the contrast test.
 * `styles/tokens.css` has the same values; a test compares the two.
 */
export type ThemeName = "dark" | "light";

export interface Tokens {
  bg: string;
  panel: string;
  raised: string;
  text: string;
  muted: string;
  faint: string;
  ok: string;
  warn: string;
  error: string;
  focus: string;
  control: string;
  accent: string;
  "on-accent": string;
  /** The leading group. */
  lead: string;
  cpu: string;
  gpu: string;
  neutral: string;
  hair: string;
  baseline: string;
  track: string;
  bar: string;
}

export const TOKENS: Record<ThemeName, Tokens> = {
  dark: {
    bg: "#070B14",
    panel: "#0F1726",
    raised: "#162033",
    text: "#E6EDF7",
    muted: "#9AA8BF",
    faint: "#7F8DA6",
    ok: "#34D399",
    warn: "#FBBF24",
    error: "#F87171",
    focus: "#7DD3FC",
    control: "#5B6F93",
    accent: "#7DD3FC",
    "on-accent": "#07131F",
    lead: "#8EABFA",
    cpu: "#F59E0B",
    gpu: "#22D3EE",
    neutral: "#1E293B",
    hair: "#94A3B81C",
    baseline: "#94A3B852",
    track: "#1A2233",
    bar: "#5B9BBD",
  },
  light: {
    bg: "#F3F5F9",
    panel: "#FFFFFF",
    raised: "#EEF2F8",
    text: "#0F172A",
    muted: "#465469",
    faint: "#5A6880",
    ok: "#047857",
    warn: "#92520A",
    error: "#B91C1C",
    focus: "#0369A1",
    control: "#7686A3",
    accent: "#0369A1",
    "on-accent": "#FFFFFF",
    lead: "#3552C4",
    cpu: "#B45309",
    gpu: "#157A8B",
    neutral: "#E2E8F0",
    hair: "#33415524",
    baseline: "#33415570",
    track: "#EEF1F6",
    bar: "#3F83AB",
  },
};
