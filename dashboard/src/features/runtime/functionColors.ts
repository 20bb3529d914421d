/** Colours of functions, by their order of appearance; dark text is readable on each of them in both themes. */
const COLORS = ["#6ea8fe", "#5cc0a0", "#b69cf6", "#e08fb2", "#e5b567", "#8fd3e8", "#c5d86d", "#d9a38f"] as const;
export const ON_COLOR = "#0b1220";

export function colorsOf(names: Iterable<string>): Map<string, string> {
  const colors = new Map<string, string>();
  for (const name of names) if (!colors.has(name)) colors.set(name, COLORS[colors.size % COLORS.length] as string);
  return colors;
}
