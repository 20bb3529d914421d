import { Search } from "lucide-react";
import { classNames } from "./classNames";

interface SearchBoxProps {
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  /** Whether the key `/` focuses this box. */
  shortcut?: boolean;
  className?: string;
}

export function SearchBox({ label, placeholder, value, onChange, shortcut, className }: SearchBoxProps) {
  return (
    <label
      className={classNames(
        "flex h-10 items-center gap-2 rounded-control border border-control px-2 has-focus-visible:outline-2 has-focus-visible:outline-focus md:h-7",
        className,
      )}
    >
      <Search size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          onChange("");
          event.currentTarget.blur();
        }}
        {...(shortcut ? { "data-search": "" } : {})}
        className="w-full min-w-0 bg-transparent text-12 outline-none placeholder:text-faint [&::-webkit-search-cancel-button]:hidden"
      />
      {shortcut ? (
        <kbd className="kbd" aria-hidden="true">
          /
        </kbd>
      ) : null}
    </label>
  );
}
