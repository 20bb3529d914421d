import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

const document = resolve(__dirname, "../../docs/openapi.json");
const generated = resolve(__dirname, "../src/client/types.ts");

describe("generated API types", () => {
  it.skipIf(!existsSync(document))("are those of docs/openapi.json (else: npm run types)", () => {
    // Digest of the parsed document, because line endings and indentation do not make types stale.
    const text = JSON.stringify(JSON.parse(readFileSync(document, "utf8")));
    const digest = createHash("sha256").update(text).digest("hex");
    const noted = /openapi sha256: (\w+)/.exec(readFileSync(generated, "utf8"))?.[1];
    expect(noted).toBe(digest);
  });
});
