import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { createPortal } from "react-dom";
import { IconButton } from "./Button";
import { classNames } from "./classNames";

interface DialogProps {
  title: ReactNode;
  subtitle?: ReactNode;
  actions?: ReactNode;
  onClose: () => void;
  children: ReactNode;
  /** `sheet` opens at the right beside the page; `full` fills the window. */
  kind?: "card" | "full" | "sheet" | "wide";
  /** Stays at the bottom while the content scrolls. */
  footer?: ReactNode;
}

const KINDS = {
  card: "m-auto w-[min(640px,calc(100vw-32px))] max-h-[calc(100dvh-32px)] rounded-panel",
  full: "m-auto h-[calc(100dvh-32px)] w-[calc(100vw-32px)] rounded-panel",
  wide: "m-auto h-[calc(100dvh-32px)] max-h-[1160px] w-[min(1360px,calc(100vw-32px))] rounded-panel max-md:m-0 max-md:h-dvh max-md:max-h-none max-md:w-screen max-md:rounded-none",
  sheet: "ml-auto mr-0 my-0 h-dvh w-[min(640px,100vw)] max-h-none rounded-none border-y-0 border-r-0",
} as const;

/** Native modal dialog: it keeps the focus inside, closes on Escape and restores the focus. */
export function Dialog({ title, subtitle, actions, onClose, children, footer, kind = "card" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement as HTMLElement | null;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      before?.focus?.();
    };
  }, []);
  return createPortal(
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already; the backdrop is for pointers
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
      className={classNames(
        "enter max-w-none border border-control/50 bg-panel p-0 text-ink shadow-2xl backdrop:bg-black/55",
        KINDS[kind],
      )}
    >
      <div className="flex h-full max-h-[inherit] flex-col">
        <header className="flex items-center gap-3 border-hair border-b px-5 py-3">
          <div className="min-w-0 flex-1">
            <h2 id={id} className="font-semibold text-16">
              {title}
            </h2>
            {subtitle ? <p className="text-12 text-muted">{subtitle}</p> : null}
          </div>
          {actions}
          <IconButton label="Close" onClick={onClose}>
            <X size={16} aria-hidden="true" />
          </IconButton>
        </header>
        <div className="thin-scroll flex min-h-0 flex-1 flex-col overflow-auto p-5 max-md:p-4">{children}</div>
        {footer ? <footer className="border-hair border-t px-5 py-3 max-md:px-4">{footer}</footer> : null}
      </div>
    </dialog>,
    document.body,
  );
}
