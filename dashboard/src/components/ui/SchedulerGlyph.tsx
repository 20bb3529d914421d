import { glyphPath } from "../../lib/glyphPaths";
import type { Look } from "../../lib/schedulerStyle";
import { cx } from "./classNames";

interface GlyphProps {
  look: Pick<Look, "glyph" | "color">;
  size?: number;
  className?: string;
}

/** A scheduler's mark. Always beside its name or with a label on the element around it, so it is silent itself. */
export function Glyph({ look, size = 12, className }: GlyphProps) {
  const path = glyphPath(look.glyph);
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" className={cx("shrink-0", className)}>
      {path ? (
        <path
          d={path.d}
          fill={path.stroke ? "none" : look.color}
          stroke={path.stroke ? look.color : "none"}
          strokeWidth={path.stroke}
          strokeLinecap="round"
        />
      ) : (
        <text x="8" y="13" textAnchor="middle" fontSize="14" fill={look.color}>
          {look.glyph}
        </text>
      )}
    </svg>
  );
}

/** Mark and name, as in every list of schedulers. */
export function SchedulerName({ look, className }: { look: Look; className?: string }) {
  return (
    <span className={cx("inline-flex min-w-0 items-center gap-2", className)}>
      <Glyph look={look} />
      <span className="truncate">{look.label}</span>
    </span>
  );
}
