/** Outlines of the scheduler glyphs in a 16 × 16 box, for SVG and canvas. */
interface GlyphPath {
  d: string;
  /** Drawn as a line of this width instead of a filled shape. */
  stroke?: number;
}

const STAR = "M8 1.2l2.05 4.5 4.9.55-3.65 3.32 1 4.83L8 11.95 3.7 14.4l1-4.83L1.05 6.25l4.9-.55z";
const HEXAGON = "M8 1.5l5.6 3.25v6.5L8 14.5l-5.6-3.25v-6.5z";

const PATHS: Record<string, GlyphPath> = {
  "●": { d: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11z" },
  "○": { d: "M8 3a5 5 0 1 1 0 10a5 5 0 1 1 0-10z", stroke: 1.8 },
  "◆": { d: "M8 1.5L14.5 8L8 14.5L1.5 8z" },
  "★": { d: STAR },
  "▲": { d: "M8 2L14.5 13.5H1.5z" },
  "■": { d: "M3 3h10v10H3z" },
  "✕": { d: "M3 3L13 13M13 3L3 13", stroke: 2 },
  "▼": { d: "M8 14L1.5 2.5h13z" },
  "△": { d: "M8 3L13.5 13H2.5z", stroke: 1.6 },
  "▽": { d: "M8 13L2.5 3h11z", stroke: 1.6 },
  "◇": { d: "M8 2.2L13.8 8L8 13.8L2.2 8z", stroke: 1.6 },
  "⬢": { d: HEXAGON },
  "⬡": { d: HEXAGON, stroke: 1.6 },
  "∴": {
    d: "M8 2a2.4 2.4 0 1 1 0 4.8a2.4 2.4 0 1 1 0-4.8zM3.7 9a2.4 2.4 0 1 1 0 4.8a2.4 2.4 0 1 1 0-4.8zM12.3 9a2.4 2.4 0 1 1 0 4.8a2.4 2.4 0 1 1 0-4.8z",
  },
  "✶": { d: "M8 1.5V14.5M2.4 4.75l11.2 6.5M13.6 4.75l-11.2 6.5", stroke: 2 },
  "+": { d: "M8 2V14M2 8H14", stroke: 2.4 },
  "▶": { d: "M14 8L2.5 14.5v-13z" },
  "⬣": { d: "M1.5 8l3.25-5.6h6.5L14.5 8l-3.25 5.6h-6.5z" },
  "⬟": { d: "M8 1.5l6.3 4.6-2.4 7.4H4.1L1.7 6.1z" },
  "▣": { d: "M2.8 2.8h10.4v10.4H2.8zM6 6h4v4H6z", stroke: 1.6 },
  "◈": { d: "M8 1.8L14.2 8L8 14.2L1.8 8zM8 5.6L10.4 8L8 10.4L5.6 8z", stroke: 1.4 },
  "✦": { d: "M8 1c.6 4.2 2.8 6.4 7 7c-4.2.6-6.4 2.8-7 7c-.6-4.2-2.8-6.4-7-7c4.2-.6 6.4-2.8 7-7z" },
  "◉": {
    d: "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 1 1 0-11.6zM8 6.4a1.6 1.6 0 1 1 0 3.2a1.6 1.6 0 1 1 0-3.2z",
    stroke: 1.6,
  },
};

/** Path of a glyph; undefined for other characters, which are drawn as text. */
export const glyphPath = (glyph: string): GlyphPath | undefined => PATHS[glyph];
