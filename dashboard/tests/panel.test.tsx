import { fireEvent, render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { ApiError } from "../src/client/request";
import { Table } from "../src/components/ui/SortableTable";
import { Panel } from "../src/components/widget/Panel";
import type { BodyState, Tag } from "../src/components/widget/panelState";

const table = () => ({
  name: "t",
  columns: [
    { key: "name", label: "name" },
    { key: "value", label: "value", numeric: true },
  ],
  rows: [
    ["a", 2],
    ["b", 10],
    ["c", null],
  ],
});

const panel = (state?: BodyState, tag?: Tag) =>
  render(
    <Panel title="Race" state={state} tag={tag} table={table}>
      <p>content</p>
    </Panel>,
  );

describe("panel states", () => {
  it.each<[BodyState, RegExp]>([
    [{ kind: "empty" }, /No run yet/],
    [{ kind: "empty" }, /hybrid-scheduler serve/],
    [{ kind: "waiting", have: 12, need: 30, what: "samples", perSecond: 6 }, /Waiting for 30 samples/],
    [
      {
        kind: "error",
        title: "Could not load",
        error: new ApiError(503, "database busy", "/api/x", "unavailable", "9f2c"),
      },
      /503.*database busy/,
    ],
  ])("%j", (state, text) => {
    panel(state);
    expect(screen.getByRole("heading", { name: "Race" })).toBeInTheDocument();
    expect(screen.queryByText("content")).toBeNull();
    expect(document.body.textContent).toMatch(text);
  });
  it("announce loading", () => {
    panel({ kind: "loading" });
    expect(screen.getByRole("status", { name: "Loading" })).toBeInTheDocument();
  });
  it.each<[Tag, string]>([
    [{ kind: "stale", seconds: 12 }, "12 s old"],
    [{ kind: "reconnecting" }, "reconnecting"],
    [{ kind: "frozen", buffered: 214 }, "frozen, +214"],
    [{ kind: "paused" }, "paused"],
    [{ kind: "truncated", visible: 50_000, of: 180_000 }, "50k of 180k"],
  ])("tag %j keeps the content", (tag, text) => {
    panel(undefined, tag);
    expect(screen.getByText(text)).toBeInTheDocument();
    expect(screen.getByText("content")).toBeInTheDocument();
  });
  it("offer a retry that runs", () => {
    const retry = vi.fn();
    panel({ kind: "error", title: "x", error: new Error("broken"), retry });
    fireEvent.click(screen.getByRole("button", { name: "Retry" }));
    expect(retry).toHaveBeenCalledOnce();
  });
});

describe("menu", () => {
  it("opens by keyboard and switches to the table", () => {
    panel();
    fireEvent.click(screen.getByRole("button", { name: "Race: menu" }));
    const items = screen.getAllByRole("menuitem");
    expect(items[0]).toHaveFocus();
    fireEvent.keyDown(items[0] as HTMLElement, { key: "ArrowDown" });
    expect(items[1]).toHaveFocus();
    fireEvent.click(items[1] as HTMLElement);
    expect(screen.getByRole("table")).toBeInTheDocument();
    expect(screen.queryByRole("menu")).toBeNull();
  });
});

describe("table", () => {
  it("sorts by a column head with missing values last", () => {
    render(<Table data={table()} />);
    const first = () => screen.getAllByRole("row")[1]?.textContent;
    fireEvent.click(screen.getByRole("button", { name: "value" }));
    expect(first()).toContain("b");
    fireEvent.click(screen.getByRole("button", { name: "value" }));
    expect(first()).toContain("a");
    expect(screen.getAllByRole("row").at(-1)?.textContent).toContain("–");
  });
});
