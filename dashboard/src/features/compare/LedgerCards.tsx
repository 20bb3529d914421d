import { deviceWords } from "../../components/ui/GpuShareBar";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { cost, energy, ratio, tick, time } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { setUi } from "../../store/uiStore";
import type { LedgerRow } from "./ledgerRows";

/** Ledger on a phone: two lines per decision instead of nine columns. */
export function LedgerCards({
  rows,
  styles,
}: {
  rows: readonly LedgerRow[];
  styles: ReadonlyMap<string, SchedulerStyle>;
}) {
  return (
    <ul>
      {rows.map((row) => {
        const [task, scheduler, device, fraction, , latency, joules, dollars, versus] = row;
        const style = styles.get(scheduler);
        const split = fraction !== null && fraction > 0 && fraction < 1 ? ` · ${tick(fraction)}` : "";
        return (
          <li key={`${task}-${scheduler}`} className="border-hair border-t first:border-0">
            <button
              type="button"
              onClick={() => setUi({ task, focus: scheduler })}
              className="w-full py-2 text-left"
            >
              <span className="flex justify-between text-14">
                {style ? <SchedulerName style={style} /> : scheduler}
                <span className="whitespace-nowrap">
                  <span className="font-semibold">{time(latency)}</span>
                  <span className="ml-3 text-muted">{ratio(versus)}</span>
                </span>
              </span>
              <span className="mt-0.5 flex justify-between text-muted">
                <span>
                  {task} · {deviceWords(device, fraction)}
                  {split}
                </span>
                <span className="whitespace-nowrap">
                  {energy(joules)} · {cost(dollars)}
                </span>
              </span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}
