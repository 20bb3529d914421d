import { type RefCallback, useLayoutEffect, useState } from "react";

export interface Size {
  width: number;
  height: number;
}

/**
 * The inner size of an element, kept up to date: charts draw to the pixel they get. A callback ref, because the element
 * may appear later than the component (a widget that loads first). The element itself comes third.
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
