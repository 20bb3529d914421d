import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { classNames } from "./classNames";

export interface MenuItem {
  key: string;
  label: string;
  icon?: ReactNode;
  hint?: string;
  /** Whether this option is selected; undefined where the menu is not a choice. */
  checked?: boolean;
  disabled?: boolean;
  onSelect: () => void;
}

interface MenuProps {
  items: readonly MenuItem[];
  label: string;
  /** Renders the button, which needs the given properties. */
  trigger: (props: TriggerProps) => ReactNode;
  align?: "left" | "right";
  className?: string;
}

interface TriggerProps {
  "aria-haspopup": "menu";
  "aria-expanded": boolean;
  "aria-controls": string | undefined;
  onClick: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

/** Menu button after the ARIA pattern, with arrow keys, Home, End and Escape. */
export function Menu({ items, label, trigger, align = "right", className }: MenuProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();

  const focusItem = (index: number) => {
    const nodes = list.current?.querySelectorAll<HTMLElement>("[data-item]:not([disabled])");
    if (!nodes?.length) return;
    nodes[(index + nodes.length) % nodes.length]?.focus();
  };
  const close = (refocus: boolean) => {
    setOpen(false);
    if (refocus) root.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
  };

  useEffect(() => {
    if (!open) return;
    const selected = list.current?.querySelector<HTMLElement>('[aria-checked="true"]');
    (selected ?? list.current?.querySelector<HTMLElement>("[data-item]:not([disabled])"))?.focus();
    const outside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  const onKeyDown = (event: KeyboardEvent) => {
    const nodes = Array.from(list.current?.querySelectorAll<HTMLElement>("[data-item]:not([disabled])") ?? []);
    const index = nodes.indexOf(document.activeElement as HTMLElement);
    const moves: Record<string, () => void> = {
      ArrowDown: () => focusItem(index + 1),
      ArrowUp: () => focusItem(index - 1),
      Home: () => focusItem(0),
      End: () => focusItem(-1),
      Escape: () => close(true),
      Tab: () => close(false),
    };
    const move = moves[event.key];
    // Shortcuts of the page must not fire while a menu is open.
    event.stopPropagation();
    if (!move) return;
    if (event.key !== "Tab") event.preventDefault();
    move();
  };

  return (
    <div ref={root} className="relative inline-flex" data-no-export>
      {trigger({
        "aria-haspopup": "menu",
        "aria-expanded": open,
        "aria-controls": open ? id : undefined,
        onClick: () => setOpen((value) => !value),
        onKeyDown: (event) => {
          if (event.key === "ArrowDown" && !open) {
            event.preventDefault();
            setOpen(true);
          }
        },
      })}
      {open ? (
        <div
          ref={list}
          id={id}
          role="menu"
          aria-label={label}
          tabIndex={-1}
          onKeyDown={onKeyDown}
          className={classNames(
            "popover enter absolute top-full z-40 mt-1 min-w-48 p-1.5",
            align === "right" ? "right-0" : "left-0",
            className,
          )}
        >
          {items.map((item) => (
            <button
              key={item.key}
              type="button"
              data-item
              {...(item.checked === undefined
                ? { role: "menuitem" }
                : { role: "menuitemradio", "aria-checked": item.checked })}
              disabled={item.disabled}
              onClick={() => {
                close(true);
                item.onSelect();
              }}
              className={classNames(
                "flex h-10 w-full items-center gap-3 rounded-[6px] px-2.5 text-left text-12 text-ink hover:bg-hair focus-visible:outline-offset-[-2px] md:h-8",
                "disabled:text-faint",
                item.checked && "bg-hair font-medium",
              )}
            >
              {item.icon ? <span className="text-muted">{item.icon}</span> : null}
              <span className="flex-1 whitespace-nowrap">{item.label}</span>
              {item.hint ? <kbd className="kbd">{item.hint}</kbd> : null}
            </button>
          ))}
        </div>
      ) : null}
    </div>
  );
}
