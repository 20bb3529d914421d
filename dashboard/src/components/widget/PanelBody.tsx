import { CircleAlert, Copy, Inbox, Play, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { api } from "../../client/api";
import { ApiError } from "../../client/request";
import { count } from "../../lib/format";
import { live } from "../../store/liveStore";
import { announce } from "../ui/announce";
import { Button, IconButton } from "../ui/Button";
import type { BodyState, Shape } from "./panelState";

const START_COMMAND = "hybrid-scheduler serve";

const copy = (text: string) => void navigator.clipboard?.writeText(text).then(() => announce("Copied"));

function Middle({ children }: { children: ReactNode }) {
  return (
    <div className="flex h-full min-h-24 w-full flex-col items-center justify-center gap-3 text-center">
      {children}
    </div>
  );
}

/** Placeholder in the shape of the content, so that nothing moves when it arrives. */
function Skeleton({ shape }: { shape: Shape }) {
  const rows = shape === "table" ? 8 : 6;
  if (shape === "matrix") {
    return (
      <div className="grid h-full min-h-40 grid-cols-6 gap-1">
        {Array.from({ length: 36 }, (_, i) => (
          <div key={i} className="skeleton" />
        ))}
      </div>
    );
  }
  return (
    <div className="flex h-full flex-col justify-around gap-2 py-1">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i}>
          <div className="mb-1.5 flex justify-between">
            <div className="skeleton h-2.5" style={{ width: `${9 + ((i * 5) % 8)}%` }} />
            <div className="skeleton h-2.5 w-[12%]" />
          </div>
          <div className="skeleton h-2" style={{ width: shape === "bars" ? `${52 + i * 7}%` : "100%" }} />
        </div>
      ))}
    </div>
  );
}

function Empty({ title = "No run yet", hint, start }: { title?: string; hint?: string; start?: boolean }) {
  return (
    <Middle>
      <Inbox size={24} className="text-muted" aria-hidden="true" />
      <p className="font-semibold text-14">{title}</p>
      <p className="text-12 text-muted">
        {hint ??
          (start ? "Start the engine, or run this on the server's machine:" : "Run this on the server's machine:")}
      </p>
      {hint ? null : (
        <>
          <div className="flex items-center gap-2 rounded-control border border-control/60 bg-bg px-3 py-0.5 font-mono text-12">
            <span className="text-faint">$</span>
            {START_COMMAND}
            <IconButton label="Copy the command" onClick={() => copy(START_COMMAND)}>
              <Copy size={13} aria-hidden="true" />
            </IconButton>
          </div>
          {start ? (
            <Button
              variant="primary"
              icon={<Play size={14} aria-hidden="true" />}
              onClick={() =>
                void api.start().then(
                  (status) => live.setStatus(status),
                  (error: Error) => announce(error.message),
                )
              }
            >
              Start simulation
            </Button>
          ) : null}
        </>
      )}
    </Middle>
  );
}

function Waiting({ have, need, what, perSecond }: Extract<BodyState, { kind: "waiting" }>) {
  const circle = 2 * Math.PI * 19;
  const left = perSecond && perSecond > 0 ? Math.ceil((need - have) / perSecond) : null;
  return (
    <Middle>
      <svg width="48" height="48" viewBox="0 0 48 48" role="img" aria-label={`${have} of ${need}`}>
        <circle cx="24" cy="24" r="19" fill="none" stroke="var(--baseline)" strokeWidth="3" />
        <circle
          cx="24"
          cy="24"
          r="19"
          fill="none"
          stroke="var(--accent)"
          strokeWidth="3"
          strokeDasharray={`${(circle * have) / need} ${circle}`}
          strokeLinecap="round"
          transform="rotate(-90 24 24)"
        />
        <text x="24" y="28" textAnchor="middle" fontSize="12" fontWeight="600" fill="var(--text)">
          {have}
        </text>
      </svg>
      <p className="font-semibold text-14">
        Waiting for {count(need)} {what}
      </p>
      <p className="text-12 text-muted">
        {count(have)} so far{left === null ? "" : `, about ${left} s to go`}
      </p>
    </Middle>
  );
}

function Failure({ title, error, retry }: Extract<BodyState, { kind: "error" }>) {
  const known = error instanceof ApiError ? error : null;
  const message =
    error instanceof Error ? error.message : "Waiting for the server. The page reconnects automatically.";
  const details = known ? `${known.path}${known.requestId ? ` · req ${known.requestId}` : ""}` : null;
  return (
    <Middle>
      <CircleAlert size={22} className="text-error" aria-hidden="true" />
      <p className="font-semibold text-14">{title}</p>
      <p className="max-w-sm text-12 text-muted">
        {known && known.status > 0 ? `The server answered ${known.status}: ` : ""}
        {message}
        {known?.hint ? ` ${known.hint}` : ""}
      </p>
      {details ? <p className="max-w-full break-all font-mono text-12 text-faint">{details}</p> : null}
      <div className="flex gap-2">
        {retry ? (
          <Button variant="primary" icon={<RotateCw size={14} aria-hidden="true" />} onClick={retry}>
            Retry
          </Button>
        ) : null}
        {details ? (
          <Button icon={<Copy size={14} aria-hidden="true" />} onClick={() => copy(`${message}\n${details}`)}>
            Copy details
          </Button>
        ) : null}
      </div>
    </Middle>
  );
}

/** Body of a widget: its content, or a message for the states loading, empty, waiting and error. */
export function PanelBody({ state, children }: { state: BodyState; children: ReactNode }) {
  switch (state.kind) {
    case "loading":
      return (
        <div className="h-full w-full" role="status" aria-label="Loading">
          <Skeleton shape={state.shape ?? "bars"} />
        </div>
      );
    case "empty":
      return <Empty {...state} />;
    case "waiting":
      return <Waiting {...state} />;
    case "error":
      return <Failure {...state} />;
    default:
      return children;
  }
}
