/** Keyboard handlers that the view on the screen registers for stepping and exporting. */
import { useEffect } from "react";
import { create } from "zustand";

interface ShortcutHandlers {
  /** Runs on `[` and `]`. */
  step: ((by: 1 | -1) => void) | null;
  /** Runs on `E` unless a widget has the focus. */
  exportData: (() => void) | null;
}

export const useShortcutHandlers = create<ShortcutHandlers>(() => ({ step: null, exportData: null }));

/** Registers a handler while the calling component is mounted. */
export function useShortcutHandler<K extends keyof ShortcutHandlers>(key: K, handler: ShortcutHandlers[K]): void {
  useEffect(() => {
    useShortcutHandlers.setState({ [key]: handler });
    return () => {
      if (useShortcutHandlers.getState()[key] === handler) useShortcutHandlers.setState({ [key]: null });
    };
  }, [key, handler]);
}
