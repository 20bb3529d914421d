import { ChevronDown } from "lucide-react";
import { useMemo } from "react";
import { ParallelCoordinates } from "../../charts/ParallelCoordinates";
import { Button } from "../../components/ui/Button";
import { Menu } from "../../components/ui/Menu";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import { count } from "../../lib/format";
import { useStylesOf } from "../../store/schedulerStyles";
import { available, useScales } from "./parallelAxes";
import { useWorkspace } from "./workspaceContext";
import { setWorkspace, useWorkspaceState } from "./workspaceState";

/** Parallel coordinates over runs and cells of sweeps: axes are parameters and metrics, ranges on them filter. */
export function ParallelPanel() {
  const { keep, color } = useWorkspaceState();
  const { rows, kept, pending } = useWorkspace();
  const styles = useStylesOf([...new Set(rows.map((row) => row.scheduler))]);
  const scales = useScales(rows);
  const keys = scales.map((scale) => scale.key);
  const axes = scales.map((scale) => {
    const bounds = keep[scale.key];
    return { ...scale, span: bounds ? scale.spanOf(bounds) : null };
  });
  const lines = useMemo(() => {
    const passed = new Set(kept);
    return rows.map((row) => ({
      at: scales.map((scale) => scale.positionOf(row)),
      color: color === "source" ? row.source.color : (styles.get(row.scheduler)?.color ?? row.source.color),
      kept: passed.has(row),
    }));
  }, [rows, kept, scales, color, styles]);
  const filtered = Object.keys(keep).length > 0;
  const others = available(rows).filter(({ key }) => !keys.includes(key));
  const without = (key: string) => Object.fromEntries(Object.entries(keep).filter(([name]) => name !== key));
  const move = (key: string, by: 1 | -1) => {
    const next = keys.filter((one) => one !== key);
    next.splice(Math.min(next.length, Math.max(0, keys.indexOf(key) + by)), 0, key);
    setWorkspace({ axes: next });
  };
  return (
    <Panel
      title="Parallel coordinates"
      subtitle={`${count(kept.length)} of ${count(rows.length)} ${filtered ? "pass the filters" : "rows"}`}
      state={
        rows.length
          ? { kind: "ready" }
          : pending
            ? { kind: "loading", shape: "lines" }
            : {
                kind: "empty",
                title: "Nothing chosen",
                hint: "Choose a sweep or several runs. `hybrid-scheduler sweep` writes a sweep.",
              }
      }
      table={() => ({
        name: "workspace-rows",
        columns: scales.map(({ key, label, names }) => ({ key, label, numeric: names === null })),
        rows: kept.map((row) => scales.map(({ key }) => row.values[key] ?? null)),
      })}
      actions={
        <>
          <Button variant="quiet" disabled={!filtered} onClick={() => setWorkspace({ keep: {} })}>
            Clear filters
          </Button>
          <Menu
            label="Add an axis"
            items={others.map(({ key, label }) => ({
              key,
              label,
              onSelect: () => setWorkspace({ axes: [...keys, key] }),
            }))}
            trigger={(props) => (
              <Button {...props} disabled={others.length === 0} className="max-md:hidden">
                Add axis
              </Button>
            )}
          />
          <SegmentedControl
            label="Colour by"
            choices={[
              { value: "scheduler", label: "scheduler" },
              { value: "source", label: "run" },
            ]}
            value={color}
            onChange={(value) => setWorkspace({ color: value })}
            className="max-md:hidden md:h-7"
          />
        </>
      }
      note="One line per scheduler of a run or cell of a sweep. Drag on an axis to keep a range, click it to clear. Keys: Tab to an end of the axis, arrows move it, Delete clears. Curves and table follow the filters."
      bodyClass="flex flex-col"
    >
      <ParallelCoordinates
        axes={axes}
        lines={lines}
        label={`Parallel coordinates of ${count(rows.length)} rows over ${scales.map((scale) => scale.label).join(", ")}`}
        onSpan={(key, span) => {
          const scale = scales.find((one) => one.key === key);
          setWorkspace({ keep: span && scale ? { ...keep, [key]: scale.boundsOf(span) } : without(key) });
        }}
        menu={(key) => (
          <Menu
            label={`Axis ${key}`}
            align={keys.indexOf(key) < keys.length / 2 ? "left" : "right"}
            items={[
              { key: "left", label: "Move left", disabled: keys[0] === key, onSelect: () => move(key, -1) },
              { key: "right", label: "Move right", disabled: keys.at(-1) === key, onSelect: () => move(key, 1) },
              {
                key: "clear",
                label: "Clear the filter",
                disabled: !(key in keep),
                onSelect: () => setWorkspace({ keep: without(key) }),
              },
              {
                key: "remove",
                label: "Remove the axis",
                disabled: keys.length <= 2,
                onSelect: () => setWorkspace({ axes: keys.filter((one) => one !== key), keep: without(key) }),
              },
            ]}
            trigger={(props) => (
              <button
                type="button"
                {...props}
                aria-label={`Axis ${scales.find((one) => one.key === key)?.label ?? key}`}
                className="inline-flex size-6 shrink-0 items-center justify-center rounded-[4px] text-muted hover:bg-raised hover:text-ink"
              >
                <ChevronDown size={13} aria-hidden="true" />
              </button>
            )}
          />
        )}
      />
    </Panel>
  );
}
