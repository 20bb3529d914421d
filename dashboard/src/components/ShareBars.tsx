import { percent } from "../lib/format";

/** Bars of shares, longest first, with their per cent. */
export function ShareBars({ shares }: { shares: readonly (readonly [string, number])[] }) {
  const top = Math.max(...shares.map(([, share]) => share), 0.01);
  return (
    <ul className="flex flex-col gap-3">
      {shares.map(([name, share]) => (
        <li key={name}>
          <p className="mb-1 flex justify-between">
            <span>{name}</span>
            <span className="text-muted">{percent(share)}</span>
          </p>
          <div className="h-2 rounded-full bg-track">
            <div className="marks h-2 rounded-full bg-gpu" style={{ width: `${(share / top) * 100}%` }} />
          </div>
        </li>
      ))}
    </ul>
  );
}
