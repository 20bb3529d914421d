import { describe, expect, it } from "vitest";
import { filterRows, ledgerRows, sortRows } from "../src/features/compare/ledgerRows";
import { duelsOf } from "../src/features/compare/WinLossMatrix";
import { logBins } from "../src/features/compare/WorkloadCharts";
import { fallbackStyle } from "../src/lib/schedulerStyle";
import { toCsv } from "../src/lib/tableData";
import { RecentTasks } from "../src/store/recentTasks";
import { decision } from "./fixtures";

describe("CSV", () => {
  it("has raw values, quoted where needed, and escapes formulas", () => {
    const csv = toCsv({
      name: "x",
      columns: [
        { key: "a", label: "A" },
        { key: "b", label: "B", numeric: true, show: () => "shown" },
      ],
      rows: [
        ['say "hi", you', 0.123456789],
        ["=1+1", null],
        ["plain", -3],
      ],
    });
    expect(csv).toBe('a,b\r\n"say ""hi"", you",0.123456789\r\n\'=1+1,\r\nplain,-3\r\n');
  });
});

describe("ledger", () => {
  const styles = ["oracle", "hybrid_ml"].map((name) => fallbackStyle(name, "dark"));
  const tasks = new RecentTasks();
  for (const id of [1, 2, 3]) {
    tasks.add(decision(id, "oracle", { latency: 0.1 * id }));
    tasks.add(decision(id, "hybrid_ml", { latency: 0.2 * id, device: "gpu_1" }));
  }
  const rows = ledgerRows(tasks.list(), styles);
  it("lists the newest task first with the ratio to the oracle", () => {
    expect(rows.map((row) => row[0])).toEqual([3, 3, 2, 2, 1, 1]);
    expect(rows[1]?.[8]).toBeCloseTo(2, 12);
  });
  it("sorts in both directions and filters by all words", () => {
    expect(sortRows(rows, "latency_s", false)[0]?.[5]).toBeCloseTo(0.1);
    expect(sortRows(rows, "latency_s", true)[0]?.[5]).toBeCloseTo(0.6);
    expect(filterRows(rows, styles, "gpu_1")).toHaveLength(3);
    expect(filterRows(rows, styles, "oracle 2")).toHaveLength(1);
  });
});

describe("win and loss", () => {
  it("gives both directions of a pair the same p value", () => {
    const styles = ["a", "b"].map((name) => fallbackStyle(name, "dark"));
    const duels = duelsOf(styles, {
      run_id: "r",
      tasks: 100,
      first_task_id: 1,
      last_task_id: 100,
      schedulers: [],
      wins: { a: { b: 70 }, b: { a: 20 } },
    });
    expect(duels.get("a|b")).toMatchObject({ wins: 70, losses: 20 });
    expect(duels.get("b|a")).toMatchObject({ wins: 20, losses: 70 });
    expect(duels.get("a|b")?.p).toBeLessThan(0.001);
  });
});

it("logarithmic bins count every task once", () => {
  const bins = logBins([100, 150, 900, 5000], 100, 5000, 6);
  expect(bins.reduce((sum, bin) => sum + bin.n, 0)).toBe(4);
  expect(bins[0]?.low).toBe(100);
  expect(bins[5]?.high).toBeCloseTo(5000, 6);
});
