import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight, Download } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Button, IconButton } from "../../components/ui/Button";
import { classNames } from "../../components/ui/classNames";
import { deviceWords, GpuShareBar } from "../../components/ui/GpuShareBar";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { SearchBox } from "../../components/ui/SearchBox";
import { formatCell } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { useElementSize } from "../../hooks/useElementSize";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { download } from "../../lib/downloadFile";
import { count } from "../../lib/format";
import { type Column, type TableData, toCsv } from "../../lib/tableData";
import { fileNameOf } from "../../store/fileNames";
import { useVisibleStyles } from "../../store/selectors";
import { useShortcutHandler } from "../../store/shortcutHandlers";
import { setUi } from "../../store/uiStore";
import { LedgerCards } from "./LedgerCards";
import { filterRows, LEDGER_COLUMNS, type LedgerRow, ledgerRows, sortRows } from "./ledgerRows";
import { useTasksInRange } from "./useTasksInRange";

const ROW = 32;

interface SortState {
  key: string;
  down: boolean;
}

function Head({ column, sort, onSort }: { column: Column; sort: SortState; onSort: (next: SortState) => void }) {
  const active = sort.key === column.key;
  const Arrow = sort.down ? ArrowDown : ArrowUp;
  return (
    <th
      scope="col"
      aria-sort={active ? (sort.down ? "descending" : "ascending") : "none"}
      className={classNames(
        "font-normal",
        column.numeric ? "text-right" : "text-left",
        column.key === "time_s" && "max-lg:hidden",
      )}
    >
      <button
        type="button"
        onClick={() => onSort({ key: column.key, down: active ? !sort.down : true })}
        className={classNames(
          "inline-flex h-8 items-center gap-1 px-1 hover:text-ink focus-visible:outline-offset-[-2px]",
          active ? "text-ink" : "text-muted",
        )}
      >
        {column.label}
        {active ? <Arrow size={12} aria-hidden="true" /> : null}
      </button>
    </th>
  );
}

/** Sortable table of the decisions of the newest tasks. */
export function TaskLedger() {
  const styles = useVisibleStyles();
  const tasks = useTasksInRange();
  const [sort, setSort] = useState<SortState>({ key: "task_id", down: true });
  const [text, setText] = useState("");
  const [page, setPage] = useState(0);
  const [box, size] = useElementSize<HTMLDivElement>();
  const narrow = useMediaQuery("(max-width: 767px)");
  const all = useMemo(() => ledgerRows(tasks, styles), [tasks, styles]);
  const rows = useMemo(
    () => sortRows(filterRows(all, styles, text), sort.key, sort.down),
    [all, styles, text, sort],
  );
  const perPage = narrow ? 6 : Math.max(4, Math.floor((size.height - ROW) / ROW));
  const pages = Math.max(1, Math.ceil(rows.length / perPage));
  const current = Math.min(page, pages - 1);
  const visible = rows.slice(current * perPage, (current + 1) * perPage);
  const styleOf = useMemo(() => new Map(styles.map((style) => [style.name, style])), [styles]);

  const table = useCallback(
    (): TableData => ({ name: "ledger", columns: LEDGER_COLUMNS, rows: rows.map((row) => [...row]) }),
    [rows],
  );
  const csv = useCallback(
    () => download(fileNameOf("ledger", "csv"), toCsv(table()), "text/csv;charset=utf-8"),
    [table],
  );
  useShortcutHandler("exportData", csv);

  const cell = (column: Column, row: LedgerRow, at: number) => {
    const style = styleOf.get(row[1]);
    if (column.key === "scheduler" && style) return <SchedulerName style={style} />;
    if (column.key === "device") return <span className="text-muted">{deviceWords(row[2], row[3])}</span>;
    if (column.key === "fraction") return <GpuShareBar share={row[3]} />;
    return formatCell(column, row[at] ?? null);
  };
  return (
    <Panel
      title="Ledger"
      subtitle={`${count(new Set(all.map((row) => row[0])).size)} tasks, ${count(all.length)} rows`}
      state={useLiveBody({ shape: "table" })}
      tag={useLiveTag()}
      table={table}
      csv={csv}
      actions={
        <>
          <SearchBox
            label="Filter the ledger"
            placeholder="Filter"
            value={text}
            onChange={setText}
            shortcut
            className="max-md:hidden md:w-40"
          />
          <Button
            variant="quiet"
            icon={<Download size={14} aria-hidden="true" />}
            onClick={csv}
            className="md:h-7 md:px-2"
          >
            CSV
          </Button>
        </>
      }
      bodyClass="flex flex-col"
    >
      <div ref={box} className="min-h-0 flex-1 overflow-hidden">
        {narrow ? (
          <LedgerCards rows={visible} styles={styleOf} />
        ) : (
          <table className="w-full border-collapse">
            <caption className="sr-only">Decisions of the last tasks</caption>
            <thead>
              <tr>
                {LEDGER_COLUMNS.map((column) => (
                  <Head
                    key={column.key}
                    column={column}
                    sort={sort}
                    onSort={(next) => {
                      setSort(next);
                      setPage(0);
                    }}
                  />
                ))}
              </tr>
            </thead>
            <tbody>
              {visible.map((row) => (
                <tr
                  key={`${row[0]}-${row[1]}`}
                  className="h-8 cursor-pointer border-hair border-t hover:bg-raised"
                  onClick={() => setUi({ task: row[0], focus: row[1] })}
                >
                  {LEDGER_COLUMNS.map((column, at) => (
                    <td
                      key={column.key}
                      className={classNames(
                        "whitespace-nowrap px-1",
                        column.numeric && "text-right",
                        column.key === "time_s" && "max-lg:hidden",
                        at === 0 && "font-mono",
                        at > 6 && "text-muted",
                      )}
                    >
                      {at === 0 ? (
                        <button
                          type="button"
                          className="rounded-[4px] hover:underline"
                          onClick={() => setUi({ task: row[0], focus: row[1] })}
                        >
                          {row[0]}
                        </button>
                      ) : (
                        cell(column, row, at)
                      )}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      <div className="mt-2 flex items-center gap-1 text-faint">
        <span className="flex-1">
          {rows.length
            ? `Rows ${count(current * perPage + 1)} to ${count(current * perPage + visible.length)} of ${count(rows.length)}`
            : "No row matches"}
        </span>
        <IconButton label="Previous rows" disabled={current === 0} onClick={() => setPage(current - 1)}>
          <ChevronLeft size={15} aria-hidden="true" />
        </IconButton>
        <IconButton label="Next rows" disabled={current >= pages - 1} onClick={() => setPage(current + 1)}>
          <ChevronRight size={15} aria-hidden="true" />
        </IconButton>
      </div>
    </Panel>
  );
}
