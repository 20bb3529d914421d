import { type RefCallback, useLayoutEffect, useState } from "react";

export interface Size {
  width: number;
  height: number;
}

/**
 * Inner size of an element: a callback ref, the size, and the element. A callback ref, because the element may be rendered
 * later than the component.
 */
export function useElementSize<T extends HTMLElement>(): [RefCallback<T>, Size, T | null] {
  const [element, setElement] = useState<T | null>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    if (!element) return;
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [setElement, size, element];
}
