import { describe, expect, it } from "vitest";
// @ts-expect-error a script without types
import { typeOf, typesOf } from "../scripts/generate-types.mjs";

const squeezed = (text: string): string => text.replace(/\s+/g, " ");

describe("generated API types", () => {
  it.each([
    [{ $ref: "#/components/schemas/Run" }, 'components["schemas"]["Run"]'],
    [{ anyOf: [{ type: "integer" }, { type: "number" }, { type: "null" }] }, "number | null"],
    [{ enum: ["ran", "failed"] }, '"ran" | "failed"'],
    [{ type: "array", items: { anyOf: [{ type: "string" }, { type: "null" }] } }, "(string | null)[]"],
    [{ type: "array", prefixItems: [{ type: "number" }, { type: "number" }] }, "[number, number]"],
    [{ type: "object", additionalProperties: { type: "boolean" } }, "{ [key: string]: boolean }"],
    [{ type: "object", patternProperties: { "^a": { type: "null" } } }, "{ [key: string]: null }"],
    [{}, "unknown"],
  ])("of %j are %s", (schema, type) => {
    expect(typeOf(schema)).toBe(type);
  });

  it("say which fields, parameters and bodies are required", () => {
    const text = (type: string) => ({ content: { "application/json": { schema: { type } } } });
    const field = (name: string, required: boolean) => ({
      name,
      in: "query",
      required,
      schema: { type: "number" },
    });
    const document = {
      paths: {
        "/a": {
          get: { parameters: [field("limit", false)], responses: { 200: text("string") } },
          post: { parameters: [field("a", true)], requestBody: { required: true, ...text("null") }, responses: {} },
        },
      },
      components: {
        schemas: {
          A: { type: "object", required: ["x"], properties: { x: { type: "string" }, y: { type: "null" } } },
        },
      },
    };
    const types = squeezed(typesOf(document));
    expect(types).toContain('A: { "x": string; "y"?: null; };');
    expect(types).toContain('parameters: { query?: { "limit"?: number; }; };');
    expect(types).toContain('parameters: { query: { "a": number; }; };');
    expect(types).toContain('requestBody: { content: { "application/json": null } };');
    expect(types).toContain('200: { content: { "application/json": string } };');
  });
});
