/** Flattening of a nested configuration into keys and values. */
import { plain } from "../../lib/runDiff";

interface ConfigLine {
  key: string;
  value: string;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** One group of lines for devices that differ only in name: "gpu_0 to gpu_3". */
function devices(list: readonly Record<string, unknown>[], path: string): ConfigLine[] {
  const groups: { names: string[]; rest: Record<string, unknown>; key: string }[] = [];
  for (const { name, ...rest } of list) {
    const key = JSON.stringify(rest);
    const last = groups.at(-1);
    if (last?.key === key) last.names.push(String(name));
    else groups.push({ names: [String(name)], rest, key });
  }
  return groups.flatMap(({ names, rest }) => {
    const label = names.length > 1 ? `${names[0]} to ${names.at(-1)}` : (names[0] ?? "");
    return Object.entries(rest)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => ({ key: `${path}.${label}.${key}`, value: plain(value) }));
  });
}

export function flattenConfig(value: unknown, path = ""): ConfigLine[] {
  if (Array.isArray(value) && value.length > 0 && value.every((item) => isObject(item) && "name" in item))
    return devices(value as Record<string, unknown>[], path);
  if (isObject(value)) {
    const entries = Object.entries(value);
    return entries.flatMap(([key, inner]) => flattenConfig(inner, path ? `${path}.${key}` : key));
  }
  return path ? [{ key: path, value: plain(value) }] : [];
}
