import type { DiffRow } from "../../client/models";
import { classNames } from "../../components/ui/classNames";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { TableHead } from "../../components/ui/TableHead";
import { Panel } from "../../components/widget/Panel";
import { changeText, DIFF_METRICS, differenceText, verdictOf } from "../../lib/runDiff";
import { diffTable } from "../../lib/runDiffTable";
import { useStylesOf } from "../../store/schedulerStyles";

/** Table of relative and absolute changes for all schedulers and metrics. */
export function Matrix({ rows }: { rows: readonly DiffRow[] }) {
  const styles = useStylesOf(rows.map((row) => row.name));
  return (
    <Panel
      title="All metrics"
      subtitle="change from A to B, and the difference below it"
      table={() => diffTable(rows)}
    >
      <ScrollRegion label="Change of every metric">
        <table className="w-full min-w-[640px] border-collapse text-12">
          <caption className="sr-only">Change of every metric by scheduler</caption>
          <TableHead
            columns={[["scheduler"], ...DIFF_METRICS.map(({ long }) => [long, "px-2 text-right"] as const)]}
          />
          <tbody>
            {rows.map((row) => {
              const style = styles.get(row.name);
              return (
                <tr key={row.name} className="border-hair border-t">
                  <th scope="row" className="py-2 text-left font-normal">
                    {style ? <SchedulerName style={style} /> : row.name}
                  </th>
                  {DIFF_METRICS.map((metric) => {
                    const difference = row[metric.key];
                    const verdict = verdictOf(difference);
                    return (
                      <td key={metric.key} className="whitespace-nowrap px-2 py-2 text-right">
                        <span
                          className={classNames(
                            "block",
                            verdict === "better" && "text-ok",
                            verdict === "worse" && "text-error",
                            (verdict === "close" || verdict === "same") && "text-muted",
                          )}
                        >
                          {verdict === "close"
                            ? "too close to call"
                            : verdict === "same"
                              ? "the same"
                              : changeText(difference)}
                        </span>
                        <span className="block text-faint">{differenceText(difference, metric.quantity)}</span>
                      </td>
                    );
                  })}
                </tr>
              );
            })}
          </tbody>
        </table>
      </ScrollRegion>
    </Panel>
  );
}
