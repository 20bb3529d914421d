import { describe, expect, it } from "vitest";
import type { Run, RunDetail } from "../src/client/models";
import { flattenConfig } from "../src/features/run/flattenConfig";
import { comparisonTable } from "../src/features/run/RunComparison";
import { deviceKinds } from "../src/lib/deviceKinds";
import { row } from "./fixtures";

const run: Run = {
  run_id: "01M7EYTG96DQDVM2239MTEERFN",
  created_at: 0,
  ended_at: null,
  status: "stopped",
  source: "simulated",
  scenario: "default",
  load: 0.2,
  seed: 5,
  platform: "workstation",
  schedulers: ["greedy", "oracle"],
  config: {
    scenario: JSON.parse('{"physics":"analytic","then":null}'),
    physics: { name: "analytic" },
    noise: { sigma: 0 },
    memory_policy: "clip",
    objective: { latency: 1, energy: 0, cost: 0 },
  },
  config_hash: "0",
  tasks: 6620,
  name: "",
  tags: [],
  note: "",
};

describe("configuration", () => {
  it("merges devices that differ only in name", () => {
    const devices = [
      { name: "cpu", kind: "cpu", watts: 30, memory: null },
      { name: "gpu_0", kind: "gpu", watts: 50, memory: 8000 },
      { name: "gpu_1", kind: "gpu", watts: 50, memory: 8000 },
    ];
    const keys = flattenConfig({ platform: { devices }, seed: 5, list: [1, 2] });
    expect(keys).toContainEqual({ key: "platform.devices.gpu_0 to gpu_1.watts", value: "50" });
    expect(keys).toContainEqual({ key: "platform.devices.cpu.watts", value: "30" });
    expect(keys).toContainEqual({ key: "list", value: "1, 2" });
    expect(deviceKinds({ platform: { devices } }).get("gpu_1")).toBe("gpu");
    expect(deviceKinds({}).size).toBe(0);
  });
});

describe("comparison", () => {
  it("has the API's values and no regret for the oracle", () => {
    const detail: RunDetail = {
      ...run,
      replay: null,
      verdict: null,
      comparison: [row("oracle", { mean_latency: 0.2 }), row("greedy", { mean_latency: 0.3, mean_regret: 0.1 })],
    };
    const table = comparisonTable(detail);
    expect(table.rows[0]?.slice(0, 4)).toEqual(["oracle", 0.2, 1, null]);
    expect(table.rows[1]?.[2]).toBeCloseTo(1.5);
    expect(table.rows[1]?.[3]).toBe(0.1);
  });
});
