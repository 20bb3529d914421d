import { Download, LoaderCircle } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { fetchFile } from "../client/request";
import { download } from "../lib/downloadFile";
import { memory } from "../lib/format";
import { announce } from "./ui/announce";
import { Button } from "./ui/Button";

interface FileDownloadProps {
  label: string;
  name: string;
  path: "/api/runs/{run_id}/report" | "/api/runs/{run_id}/evidence";
  runId: string;
  query?: { format?: "html" | "pdf"; limit?: number };
}

/** Button that downloads a file which the server computes first, with its progress. */
export function FileDownload({ label, name, path, runId, query = {} }: FileDownloadProps) {
  const [since, setSince] = useState<number | null>(null);
  const [bytes, setBytes] = useState(0);
  const [now, setNow] = useState(0);
  const [error, setError] = useState("");
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  useEffect(() => {
    if (since === null) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [since]);
  const start = async () => {
    abort.current = new AbortController();
    setSince(Date.now());
    setNow(Date.now());
    setBytes(0);
    setError("");
    try {
      const { signal } = abort.current;
      download(name, await fetchFile(path, { path: { run_id: runId }, query, signal }, setBytes));
      announce(`${name} downloaded`);
    } catch (cause) {
      setError(cause instanceof Error ? cause.message : "The download failed");
    }
    setSince(null);
  };
  const seconds = since === null ? 0 : Math.round((now - since) / 1000);
  const progress = bytes ? memory(bytes / 1e6) : `computing, ${seconds} s`;
  return (
    <span className="inline-flex flex-col">
      <Button
        onClick={() => void start()}
        disabled={since !== null}
        aria-busy={since !== null}
        icon={
          since === null ? (
            <Download size={14} aria-hidden="true" />
          ) : (
            <LoaderCircle size={14} className="motion-safe:animate-spin" aria-hidden="true" />
          )
        }
      >
        {label}
        {since === null ? null : <span role="status">: {progress}</span>}
      </Button>
      {error ? (
        <span role="alert" className="mt-1 max-w-60 text-12 text-error">
          {error}
        </span>
      ) : null}
    </span>
  );
}
