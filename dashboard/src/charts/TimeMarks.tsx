import type { Scale } from "./canvasAxes";

interface TimeMarksProps {
  x: Scale;
  /** Visible part of the horizontal axis. */
  from: number;
  to: number;
  top: number;
  bottom: number;
  /** Stretches that are shaded, and the text above those that are wide enough. */
  bands: readonly (readonly [number, number])[];
  bandText?: string;
  marks: readonly { x: number; label: string }[];
}

/** Shaded stretches and marked moments of a chart over time. */
export function TimeMarks({ x, from, to, top, bottom, bands, bandText = "", marks }: TimeMarksProps) {
  return (
    <>
      {bands.map(([begin, end]) => {
        const [a, b] = [x(Math.max(begin, from)), x(Math.min(end, to))];
        return b > a ? (
          <g key={begin}>
            <rect x={a} y={top} width={b - a} height={bottom - top} fill="var(--warn)" opacity={0.12} />
            {bandText && b - a > bandText.length * 7 ? (
              <text x={(a + b) / 2} y={top - 6} textAnchor="middle" fontSize="12" fill="var(--warn)">
                {bandText}
              </text>
            ) : null}
          </g>
        ) : null;
      })}
      {marks.map((mark, index) => (
        <g key={`${mark.x}-${index}`} transform={`translate(${x(mark.x)} 0)`}>
          <title>{mark.label}</title>
          <line
            y1={top}
            y2={bottom}
            stroke="var(--warn)"
            strokeDasharray="4 3"
            opacity={marks.length > 6 ? 0.25 : 1}
          />
          <path d="M0-4.5L4.5 0L0 4.5L-4.5 0z" transform={`translate(0 ${top - 6})`} fill="var(--warn)" />
        </g>
      ))}
    </>
  );
}
