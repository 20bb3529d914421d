import { type CSSProperties, type KeyboardEvent, type PointerEvent, useEffect, useRef } from "react";
import { type Size, useElementSize } from "../hooks/useElementSize";
import { type ThemeName, TOKENS, type Tokens } from "../lib/designTokens";
import { useChartTheme } from "./chartContext";

export interface Paint {
  context: CanvasRenderingContext2D;
  size: Size;
  theme: ThemeName;
  tokens: Tokens;
}

interface CanvasProps {
  /** Draws on a cleared canvas in CSS pixels. Memoise it, because a new function causes a redraw. */
  draw: (paint: Paint) => void;
  /** Description for screen readers. */
  label: string;
  className?: string;
  style?: CSSProperties;
  onPointerMove?: (event: PointerEvent<HTMLDivElement>) => void;
  onPointerDown?: (event: PointerEvent<HTMLDivElement>) => void;
  onPointerUp?: (event: PointerEvent<HTMLDivElement>) => void;
  onPointerLeave?: (event: PointerEvent<HTMLDivElement>) => void;
  onKeyDown?: (event: KeyboardEvent<HTMLDivElement>) => void;
  onDoubleClick?: () => void;
  onWheel?: (event: WheelEvent) => void;
}

export const FONT = '12px "Inter", system-ui, sans-serif';
export const FONT_STRONG = '600 12px "Inter", system-ui, sans-serif';

/** Canvas in device pixels that fills its box and is drawn at most once per frame. */
export function ChartCanvas({ draw, label, className, style, onKeyDown, onWheel, ...pointer }: CanvasProps) {
  const [box, size, element] = useElementSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useChartTheme();

  useEffect(() => {
    const element = canvas.current;
    if (!element || size.width === 0 || size.height === 0) return;
    const frame = requestAnimationFrame(() => {
      const context = element.getContext("2d");
      if (!context) return;
      const density = Math.min(window.devicePixelRatio || 1, 3);
      const [width, height] = [Math.round(size.width * density), Math.round(size.height * density)];
      if (element.width !== width) element.width = width;
      if (element.height !== height) element.height = height;
      context.setTransform(density, 0, 0, density, 0, 0);
      context.clearRect(0, 0, size.width, size.height);
      context.font = FONT;
      draw({ context, size, theme, tokens: TOKENS[theme] });
    });
    return () => cancelAnimationFrame(frame);
  }, [draw, size, theme]);

  // React's wheel listener is passive and cannot prevent the page from scrolling.
  useEffect(() => {
    if (!element || !onWheel) return;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [element, onWheel]);

  return (
    <div
      ref={box}
      className={className}
      style={{ position: "relative", ...style }}
      {...(onKeyDown ? { tabIndex: 0, role: "group", "aria-label": label, onKeyDown } : {})}
      {...pointer}
    >
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        style={{ position: "absolute", inset: 0, width: "100%", height: "100%" }}
      />
    </div>
  );
}
