import { X } from "lucide-react";
import { useId, useState } from "react";

interface TagsFieldProps {
  tags: readonly string[];
  onChange: (tags: string[]) => void;
  error?: string | null;
}

/** Tags as removable chips; Enter or a comma adds one. */
export function TagsField({ tags, onChange, error }: TagsFieldProps) {
  const id = useId();
  const [text, setText] = useState("");
  const add = () => {
    const added = text.split(",").map((tag) => tag.trim());
    const all = [...new Set([...tags, ...added])].filter(Boolean).slice(0, 12);
    if (all.length > tags.length) onChange(all);
    setText("");
  };
  return (
    <div className="col-span-2 min-w-0">
      <label htmlFor={id} className="mb-1 block text-12 text-muted">
        Tags
      </label>
      <div className="flex min-h-10 flex-wrap items-center gap-1 rounded-control border border-control px-1.5 py-0.5 text-12 has-focus-visible:outline-2 has-focus-visible:outline-focus md:min-h-8">
        {tags.map((tag) => (
          <span key={tag} className="inline-flex items-center gap-1 rounded-[5px] bg-raised px-1.5 py-0.5">
            {tag}
            <button
              type="button"
              aria-label={`Remove the tag ${tag}`}
              onClick={() => onChange(tags.filter((one) => one !== tag))}
              className="inline-flex size-6 items-center justify-center text-muted hover:text-ink md:size-4"
            >
              <X size={12} aria-hidden="true" />
            </button>
          </span>
        ))}
        <input
          id={id}
          value={text}
          maxLength={40}
          placeholder="add …"
          onChange={(event) => setText(event.target.value)}
          onBlur={add}
          onKeyDown={(event) => {
            if (event.key !== "Enter" && event.key !== ",") return;
            event.preventDefault();
            add();
          }}
          className="h-6 min-w-16 flex-1 bg-transparent px-1 outline-none placeholder:text-faint"
        />
      </div>
      {error ? (
        <p role="alert" className="mt-1 text-error">
          {error}
        </p>
      ) : null}
    </div>
  );
}
