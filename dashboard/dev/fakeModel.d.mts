export interface FakeScheduler {
  name: string;
  label: string;
  look: { dark: string; light: string; glyph: string; dash: string };
}
export const SCHEDULERS: readonly FakeScheduler[];
export const DEVICES: readonly { name: string; kind: string }[];
