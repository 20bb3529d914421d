import { Bookmark, Link2, Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { addressIn, currentAddress, deleteView, saveView, useSavedViews } from "../store/savedViews";
import { openAddress } from "../store/uiStore";
import { announce } from "./ui/announce";
import { Button, IconButton } from "./ui/Button";
import { Dialog } from "./ui/Dialog";

const INPUT =
  "h-10 min-w-0 flex-1 rounded-control border border-control bg-transparent px-2.5 text-12 placeholder:text-faint md:h-8";

const copy = (address: string) =>
  void navigator.clipboard?.writeText(window.location.origin + address).then(
    () => announce("Link copied"),
    () => announce("The browser refused to copy"),
  );

function ViewsDialog({ onClose }: { onClose: () => void }) {
  const views = useSavedViews((s) => s.views);
  const [name, setName] = useState("");
  const [link, setLink] = useState("");
  const [error, setError] = useState("");
  const save = (event: FormEvent) => {
    event.preventDefault();
    const given = link.trim();
    const address = given ? addressIn(given) : currentAddress();
    if (!name.trim()) setError("Give the view a name.");
    else if (address === null) setError("This is not a link to this dashboard.");
    else {
      saveView(name, address);
      announce(`${name.trim()} saved`);
      setName("");
      setLink("");
      setError("");
    }
  };
  return (
    <Dialog
      title="Saved views"
      subtitle="A view is a link: page, runs, filters, axes, what-if settings and layout. Names are kept in this browser."
      onClose={onClose}
    >
      <ul className="mb-4 text-12" aria-label="Saved views">
        {views.map((view) => (
          <li key={view.name} className="flex items-center gap-1 border-hair border-t py-1 first:border-0">
            <button
              type="button"
              className="min-w-0 flex-1 rounded-[4px] px-1 py-1.5 text-left hover:bg-raised"
              onClick={() => {
                openAddress(view.address);
                onClose();
              }}
            >
              <span className="block truncate font-medium">{view.name}</span>
              <span className="block truncate text-faint">{view.address}</span>
            </button>
            <IconButton label={`Copy the link of ${view.name}`} onClick={() => copy(view.address)}>
              <Link2 size={14} aria-hidden="true" />
            </IconButton>
            <IconButton label={`Delete ${view.name}`} onClick={() => deleteView(view.name)}>
              <Trash2 size={14} aria-hidden="true" />
            </IconButton>
          </li>
        ))}
        {views.length ? null : <li className="text-muted">No view is saved yet.</li>}
      </ul>
      <form onSubmit={save} className="space-y-2 text-12">
        <div className="flex gap-2">
          <input
            aria-label="Name of the view"
            placeholder="Name"
            value={name}
            maxLength={80}
            onChange={(event) => setName(event.target.value)}
            className={INPUT}
          />
          <Button type="submit" variant="primary">
            {link.trim() ? "Import" : "Save this view"}
          </Button>
        </div>
        <div className="flex gap-2">
          <input
            aria-label="Link to import"
            placeholder="Link to import instead of this view"
            value={link}
            onChange={(event) => setLink(event.target.value)}
            className={INPUT}
          />
          <Button icon={<Link2 size={14} aria-hidden="true" />} onClick={() => copy(currentAddress())}>
            Copy link of this view
          </Button>
        </div>
        {error ? (
          <p role="alert" className="text-error">
            {error}
          </p>
        ) : null}
      </form>
    </Dialog>
  );
}

/** Button with the dialog of the saved views; a quiet one has an icon only. */
export function SavedViews({ quiet }: { quiet?: boolean }) {
  const [open, setOpen] = useState(false);
  const icon = <Bookmark size={14} aria-hidden="true" />;
  return (
    <>
      {quiet ? (
        <IconButton label="Saved views" onClick={() => setOpen(true)} className="md:size-6">
          {icon}
        </IconButton>
      ) : (
        <Button icon={icon} onClick={() => setOpen(true)}>
          Views
        </Button>
      )}
      {open ? <ViewsDialog onClose={() => setOpen(false)} /> : null}
    </>
  );
}
