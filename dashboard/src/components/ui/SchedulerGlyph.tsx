import { glyphPath } from "../../lib/glyphPaths";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { classNames } from "./classNames";

interface GlyphProps {
  style: Pick<SchedulerStyle, "glyph" | "color">;
  size?: number;
  className?: string;
}

/** Glyph of a scheduler. Hidden from screen readers, because its name is always beside it. */
export function SchedulerGlyph({ style, size = 12, className }: GlyphProps) {
  const path = glyphPath(style.glyph);
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      aria-hidden="true"
      className={classNames("shrink-0", className)}
    >
      {path ? (
        <path
          d={path.d}
          fill={path.stroke ? "none" : style.color}
          stroke={path.stroke ? style.color : "none"}
          strokeWidth={path.stroke}
          strokeLinecap="round"
        />
      ) : (
        <text x="8" y="13" textAnchor="middle" fontSize="14" fill={style.color}>
          {style.glyph}
        </text>
      )}
    </svg>
  );
}

/** Glyph and name of a scheduler. */
export function SchedulerName({ style, className }: { style: SchedulerStyle; className?: string }) {
  return (
    <span className={classNames("inline-flex min-w-0 items-center gap-2", className)}>
      <SchedulerGlyph style={style} />
      <span className="truncate" title={style.label}>
        {shortLabel(style)}
      </span>
    </span>
  );
}
