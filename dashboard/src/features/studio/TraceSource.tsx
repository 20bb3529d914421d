import { useQuery } from "@tanstack/react-query";
import { CircleCheck, FileSpreadsheet, TriangleAlert, Upload } from "lucide-react";
import { type DragEvent, useId, useRef, useState } from "react";
import { api } from "../../client/api";
import type { TraceInspection } from "../../client/models";
import { Button } from "../../components/ui/Button";
import { classNames } from "../../components/ui/classNames";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { TableHead } from "../../components/ui/TableHead";
import { count, memory } from "../../lib/format";
import { Field, INPUT, Problem } from "./fields";
import { type Mapping, VALUES, type ValueName, type ValueSource } from "./traceMapping";

export interface Draft {
  file: File;
  mapping: Mapping | null;
  skipBad: boolean;
  name: string;
}

interface TraceSourceProps {
  trace: string;
  draft: Draft | null;
  inspection: TraceInspection | undefined;
  pending: boolean;
  error: string | null;
  nameError: string | null;
  onTrace: (name: string) => void;
  onFile: (file: File) => void;
  onDraft: (draft: Draft | null) => void;
}

const LISTED = 8;

/** Choice of a stored trace, or of a file with its columns, bad rows and their fixes. */
export function TraceSource(props: TraceSourceProps) {
  const { trace, draft, inspection, pending, error, nameError, onTrace, onFile, onDraft } = props;
  const stored = useQuery({ queryKey: ["traces"], queryFn: ({ signal }) => api.traces({ signal }) });
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const id = useId();
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const file = event.dataTransfer.files[0];
    if (file) onFile(file);
  };
  return (
    <div className="space-y-3 text-12">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: dropping is a shortcut; the button inside opens the same */}
      <div
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
        className={classNames(
          "flex flex-wrap items-center gap-3 rounded-control border border-dashed p-4",
          over ? "border-accent bg-raised" : "border-control",
        )}
      >
        <FileSpreadsheet size={20} className="text-accent" aria-hidden="true" />
        <span className="min-w-0 flex-1">
          <b className="block truncate font-semibold text-14">{draft ? draft.file.name : "Drop a trace here"}</b>
          <span className="text-muted">
            {draft
              ? `${memory(draft.file.size / 1e6)}${inspection ? ` · ${inspection.title}` : ""}`
              : "CSV, Parquet, SWF, WfFormat, or a cluster's log"}
          </span>
        </span>
        <Button icon={<Upload size={14} aria-hidden="true" />} onClick={() => input.current?.click()}>
          Choose a file
        </Button>
        <input
          ref={input}
          type="file"
          aria-label="Trace file"
          accept=".csv,.tsv,.parquet,.json,.swf,.txt"
          className="hidden"
          onChange={(event) => {
            const file = event.target.files?.[0];
            if (file) onFile(file);
            event.target.value = "";
          }}
        />
      </div>
      {draft ? null : (
        <div>
          <label htmlFor={id} className="mb-1 block text-muted">
            Or play a stored trace
          </label>
          <select id={id} className={INPUT} value={trace} onChange={(event) => onTrace(event.target.value)}>
            <option value="">{stored.data?.traces.length === 0 ? "none stored yet" : "choose one"}</option>
            {stored.data?.traces.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name} ({memory(one.size_bytes / 1e6)})
              </option>
            ))}
          </select>
        </div>
      )}
      <Problem text={error} />
      {draft && inspection ? (
        <>
          {draft.mapping ? (
            <MappingTable
              inspection={inspection}
              mapping={draft.mapping}
              onChange={(mapping) => onDraft({ ...draft, mapping })}
            />
          ) : (
            <KnownMapping inspection={inspection} />
          )}
          <Rows inspection={inspection} draft={draft} onDraft={onDraft} />
          <div className="flex items-end gap-2">
            <Field
              label="Name of the stored trace"
              value={draft.name}
              error={nameError}
              onChange={(event) => onDraft({ ...draft, name: event.target.value })}
              className="flex-1"
            />
            <Button variant="quiet" onClick={() => onDraft(null)}>
              Remove the file
            </Button>
          </div>
        </>
      ) : null}
      {pending ? (
        <p role="status" className="text-muted">
          Reading the file …
        </p>
      ) : null}
    </div>
  );
}

/** Sources of the values in a format that the server knows. */
function KnownMapping({ inspection }: { inspection: TraceInspection }) {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
      {Object.entries(inspection.mapping).map(([name, source]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name.replaceAll("_", " ")}</dt>
          <dd className="min-w-0 break-words">{source}</dd>
        </div>
      ))}
    </dl>
  );
}

function MappingTable({
  inspection,
  mapping,
  onChange,
}: {
  inspection: TraceInspection;
  mapping: Mapping;
  onChange: (mapping: Mapping) => void;
}) {
  const set = (name: ValueName, source: ValueSource | null) => {
    const others: Mapping = { ...mapping };
    delete others[name];
    // A table gives the size or the run time.
    if (source?.column && name === "size") delete others.seconds;
    if (source?.column && name === "seconds") delete others.size;
    onChange(source ? { ...others, [name]: source } : others);
  };
  const names = inspection.columns.map((column) => column.name);
  const first = (column: string | undefined) =>
    inspection.columns
      .find((one) => one.name === column)
      ?.first.slice(0, 2)
      .join(", ");
  const options = (none: string) => (
    <>
      <option value="">{none}</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </>
  );
  return (
    <ScrollRegion label="Columns of the file">
      <table className="w-full border-collapse text-left">
        <TableHead columns={[["needed"], ["column of the file"], ["first values", "pl-3"]]} />
        <tbody>
          {VALUES.map(({ name, label, unit, fixed }) => {
            const source = mapping[name];
            return (
              <tr key={name} className="border-hair border-t align-top">
                <th scope="row" className="py-2 pr-3 text-left font-semibold">
                  {label}
                  <span className="block font-normal text-muted">{unit}</span>
                </th>
                <td className="py-2">
                  <select
                    aria-label={`Column of the ${label}`}
                    className={classNames(INPUT, "font-mono")}
                    value={source?.column ?? ""}
                    onChange={(event) =>
                      set(name, event.target.value ? { ...source, column: event.target.value } : null)
                    }
                  >
                    {options(fixed === undefined ? "not used" : `not in the file: ${fixed} for all`)}
                  </select>
                  {source?.column && name !== "arrival_time" && name !== "compute_intensity" ? (
                    <span className="mt-1 flex gap-1">
                      {name === "seconds" ? (
                        <select
                          aria-label={`Column to subtract from the ${label}`}
                          className={classNames(INPUT, "font-mono")}
                          value={source.minus ?? ""}
                          onChange={(event) => {
                            const { minus: _, ...others } = source;
                            set(name, event.target.value ? { ...others, minus: event.target.value } : others);
                          }}
                        >
                          {options("minus nothing")}
                        </select>
                      ) : null}
                      <span aria-hidden="true" className="self-center px-1 text-muted">
                        ×
                      </span>
                      <input
                        aria-label={`Factor of the ${label}`}
                        title="Multiplies the column, for other units"
                        inputMode="decimal"
                        className={classNames(INPUT, "!w-16 flex-none")}
                        defaultValue={source.factor ?? 1}
                        onChange={(event) => {
                          const factor = Number(event.target.value);
                          if (factor > 0) set(name, { ...source, factor });
                        }}
                      />
                    </span>
                  ) : null}
                </td>
                <td className="max-w-32 break-words py-2 pl-3 font-mono text-muted">
                  {first(source?.column) ?? "–"}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** Rows that were read, and those that cannot be used, with the way out. */
function Rows({
  inspection,
  draft,
  onDraft,
}: {
  inspection: TraceInspection;
  draft: Draft;
  onDraft: (draft: Draft) => void;
}) {
  const { rows_read: read, rows_kept: kept, rejected, error, hint, notes } = inspection;
  const bad = read - kept;
  if (error)
    return (
      <Problem text={`${error.field}: must be ${error.allowed}, got ${error.got}.${hint ? ` ${hint}` : ""}`} />
    );
  if (!read)
    return draft.mapping ? (
      <p className="text-muted">Choose the columns of size or run time, and of arrival.</p>
    ) : null;
  return (
    <div className="space-y-2">
      <div aria-hidden="true" className="flex h-1 overflow-hidden rounded">
        <i className="bg-ok" style={{ width: `${(100 * kept) / read}%` }} />
        <i className="flex-1 bg-warn" />
      </div>
      <p>
        {count(read)} rows read · <b className="font-semibold">{count(kept)} kept</b>
        {bad ? <span className="text-warn"> · {count(bad)} rejected</span> : null}
      </p>
      {notes.map((note) => (
        <p key={note} className="text-muted">
          {note}
        </p>
      ))}
      {bad ? (
        <>
          <ScrollRegion label="Rejected rows">
            <table className="w-full border-collapse text-left">
              <thead className="text-muted">
                <tr className="h-7">
                  {["row", "column", "must be", "got"].map((head) => (
                    <th key={head} scope="col" className="pr-3 font-normal">
                      {head}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rejected.slice(0, LISTED).map((one) => (
                  <tr key={`${one.line} ${one.field}`} className="border-hair border-t">
                    <td className="py-1 pr-3">{one.line}</td>
                    <td className="pr-3 font-mono">{one.field}</td>
                    <td className="pr-3">{one.allowed}</td>
                    <td className="max-w-40 break-words font-mono text-warn">{one.got || "nothing"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </ScrollRegion>
          <p className="flex flex-wrap items-center gap-2 rounded-control bg-warn/10 px-3 py-1.5">
            <TriangleAlert size={14} className="shrink-0 text-warn" aria-hidden="true" />
            <span className="min-w-0 flex-1">
              {draft.skipBad
                ? `${count(bad)} rows are left out.`
                : `${count(bad)} rows cannot be used${bad > LISTED ? `, the first ${LISTED} are listed` : ""}. Correct the file, or leave them out.`}
            </span>
            <Button onClick={() => onDraft({ ...draft, skipBad: !draft.skipBad })}>
              {draft.skipBad ? "Keep them as errors" : "Leave them out"}
            </Button>
          </p>
        </>
      ) : (
        <p className="flex items-center gap-1.5 text-ok">
          <CircleCheck size={14} aria-hidden="true" /> Every row can be used.
        </p>
      )}
    </div>
  );
}
