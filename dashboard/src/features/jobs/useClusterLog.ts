/** The job log of the cluster view, its settings, and what the server computes from them. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { upload } from "../../client/request";
import type { components } from "../../client/types";

export type ClusterReport = components["schemas"]["ClusterReport"];
export type JobForecast = components["schemas"]["JobForecast"];

interface Settings {
  policy: string;
  backfilling: string;
  placement: string;
  nodes: number | null;
  gpus_per_node: number | null;
  node: number;
}

interface AskedJob {
  processors: number;
  requested_time: number;
  user: string;
}

interface LogFile {
  name: string;
  content: Blob;
  type: string;
}

const TYPES: Record<string, string> = { csv: "text/csv", json: "application/json" };
/** The first simulation on a machine compiles the simulator. */
const TIMEOUT_MS = 300_000;

export function logFile(file: File): LogFile {
  const end = file.name.split(".").pop()?.toLowerCase() ?? "";
  return { name: file.name, content: file, type: TYPES[end] ?? "text/plain" };
}

/** The made-up log as a file: its processors count as GPUs of nodes with eight each. */
export async function exampleFile(): Promise<LogFile> {
  const response = await fetch("/api/jobs/example");
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return { name: "example.swf", content: await response.blob(), type: "text/plain" };
}

export function useClusterLog() {
  const [file, setFile] = useState<LogFile | null>(null);
  const [settings, setSettings] = useState<Settings>({
    policy: "fcfs",
    backfilling: "easy",
    placement: "best_fit",
    nodes: null,
    gpus_per_node: null,
    node: 0,
  });
  const [job, setJob] = useState<AskedJob | null>(null);
  const report = useQuery({
    queryKey: ["cluster", file?.name, file?.content.size, settings],
    enabled: file !== null,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) =>
      upload("/api/jobs/simulate", file as LogFile, { ...settings }, { signal, timeoutMs: TIMEOUT_MS }),
  });
  const forecast = useQuery({
    queryKey: ["forecast", file?.name, file?.content.size, settings, job],
    enabled: file !== null && job !== null,
    queryFn: ({ signal }) =>
      upload(
        "/api/jobs/forecast",
        file as LogFile,
        { ...settings, ...(job as AskedJob) },
        { signal, timeoutMs: TIMEOUT_MS },
      ),
  });
  const change = (changed: Partial<Settings>) => setSettings((before) => ({ ...before, ...changed }));
  return { file, setFile, settings, change, job, setJob, report, forecast };
}
