import { dashArray, type SchedulerStyle } from "../lib/schedulerStyle";

interface SeriesPathProps {
  style: SchedulerStyle;
  /** SVG path of the line and of the area between its interval's edges. */
  line: string;
  band: string;
}

/** A scheduler's line in its colour and dash pattern, with its interval as a band. */
export function SeriesPath({ style, line, band }: SeriesPathProps) {
  return (
    <>
      <path d={band} fill={style.color} opacity={0.13} />
      <path
        d={line}
        fill="none"
        stroke={style.color}
        strokeWidth={style.width}
        strokeDasharray={dashArray(style)}
        strokeLinejoin="round"
      />
    </>
  );
}
