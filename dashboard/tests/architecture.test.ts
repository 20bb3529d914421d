import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = resolve(__dirname, "../src");

interface Import {
  from: string;
  target: string;
  /** `import type` only: nothing of the target is in the build. */
  typeOnly: boolean;
}

const read = (file: string): string => readFileSync(join(SRC, file), "utf8");

function sourceFiles(): string[] {
  return readdirSync(SRC, { recursive: true })
    .map(String)
    .filter((file) => /\.tsx?$/.test(file) && file !== "client/types.ts")
    .sort();
}

/** Imports of a source text, static and dynamic; relative ones resolved below src. */
function importsOf(file: string, text: string): Import[] {
  const found: Import[] = [];
  for (const match of text.matchAll(/\bimport\s+(type\s)?[^"';]*?from\s*"([^"]+)"|\bimport\s*\(?\s*"([^"]+)"/g)) {
    const specifier = match[2] ?? match[3] ?? "";
    const target = specifier.startsWith(".")
      ? relative(SRC, resolve(SRC, dirname(file), specifier)).replaceAll("\\", "/")
      : specifier;
    found.push({ from: file, target, typeOnly: match[1] !== undefined });
  }
  return found;
}

/** Layers that each layer may import, besides itself. */
const ALLOWED: Record<string, readonly string[]> = {
  lib: [],
  client: [],
  hooks: ["lib"],
  "components/ui": ["hooks", "lib"],
  charts: ["components/ui", "hooks", "lib"],
  store: ["client", "lib"],
  components: ["charts", "components/ui", "hooks", "store", "client", "lib"],
  features: ["components", "components/ui", "charts", "hooks", "store", "client", "lib"],
  app: ["features", "components", "components/ui", "charts", "hooks", "store", "client", "lib"],
};
/** Layers that may use the types of the API without its requests. */
const TYPES_OF_API = ["lib", "components/ui"];

function layerOf(path: string): string {
  return path.startsWith("components/ui/") ? "components/ui" : (path.split("/")[0] ?? "");
}

function violationOf({ from, target, typeOnly }: Import): string | null {
  const layer = layerOf(from);
  if (target === "@tanstack/react-query") {
    return ["charts", "components/ui", "hooks", "lib", "client"].includes(layer) ? `${from} uses queries` : null;
  }
  if (!/^[a-z]+\//.test(target) || !(layerOf(target) in ALLOWED) || !(layer in ALLOWED)) return null;
  const [feature, other] = [from.split("/")[1], target.split("/")[1]];
  if (layer === "features" && layerOf(target) === "features") {
    return feature === other ? null : `${from} imports feature ${other}`;
  }
  if (layer === layerOf(target) || ALLOWED[layer]?.includes(layerOf(target))) return null;
  if (typeOnly && target === "client/models" && TYPES_OF_API.includes(layer)) return null;
  return `${from} imports ${target}`;
}

describe("imports between layers", () => {
  it("only go down, and no feature imports another", () => {
    const violations = sourceFiles()
      .flatMap((file) => importsOf(file, read(file)))
      .map(violationOf)
      .filter((violation) => violation !== null);
    expect(violations).toEqual([]);
  });

  it.each([
    [
      "features/run/RunView.tsx",
      'import { a } from "../history/b";',
      "features/run/RunView.tsx imports feature history",
    ],
    ["features/run/RunView.tsx", 'import { a } from "../../app/b";', "features/run/RunView.tsx imports app/b"],
    ["store/a.ts", 'import type { B } from "../app/b";', "store/a.ts imports app/b"],
    ["store/a.ts", 'const b = () => import("../app/b");', "store/a.ts imports app/b"],
    ["charts/A.tsx", 'import {\n  b,\n} from "../store/b";', "charts/A.tsx imports store/b"],
    ["charts/A.tsx", 'import type { B } from "../client/models";', "charts/A.tsx imports client/models"],
    ["charts/A.tsx", 'import { useQuery } from "@tanstack/react-query";', "charts/A.tsx uses queries"],
    ["components/ui/A.tsx", 'import { b } from "../../store/b";', "components/ui/A.tsx imports store/b"],
    ["lib/a.ts", 'import { b } from "../client/models";', "lib/a.ts imports client/models"],
  ])("in %s the line %s is a violation", (file, text, violation) => {
    expect(importsOf(file, text).map(violationOf)).toEqual([violation]);
  });
});

/** Names that a text imports, each with the module it comes from; a namespace import counts as `*`. */
function importedNames(folder: string, text: string): string[] {
  const found: string[] = [];
  for (const match of text.matchAll(/\bimport\s+(?:type\s+)?(\{[^}]*\}|\* as \w+)\s*from\s*"(\.[^"]+)"/g)) {
    const target = relative(SRC, resolve(folder, match[2] ?? "")).replaceAll("\\", "/");
    const names = match[1]?.startsWith("*") ? ["*"] : (match[1] ?? "").replace(/[{}]|\btype\b/g, "").split(",");
    found.push(...names.map((name) => `${target}: ${name.trim().split(/\s+as\s+/)[0]}`));
  }
  return found;
}

describe("exports", () => {
  it("are imported by another module or a test", () => {
    const files = sourceFiles();
    const imported = new Set([
      ...files.flatMap((file) => importedNames(dirname(join(SRC, file)), read(file))),
      ...readdirSync(__dirname).flatMap((name) =>
        importedNames(__dirname, readFileSync(join(__dirname, name), "utf8")),
      ),
    ]);
    const unused = files.flatMap((file) => {
      const module = file.replace(/\.tsx?$/, "");
      return [...read(file).matchAll(/^export (?:async )?(?:function|const|class|interface|type) (\w+)/gm)]
        .map((match) => `${module}: ${match[1]}`)
        .filter((name) => !imported.has(name) && !imported.has(`${module}: *`));
    });
    expect(unused).toEqual([]);
  });
});
