import { Undo2, X } from "lucide-react";
import { useEffect } from "react";
import { Button, IconButton } from "../components/ui/Button";
import { settleUndo, takeBack, useStudio } from "../store/studioStore";

const SECONDS = 8;

/** Message about the last action with a button that takes it back. */
export default function UndoToast() {
  const undo = useStudio((s) => s.undo);
  useEffect(() => {
    if (!undo) return;
    const timer = setTimeout(settleUndo, SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [undo]);
  if (!undo) return null;
  return (
    <div
      role="status"
      className="popover enter fixed bottom-4 left-1/2 z-40 flex max-w-[calc(100vw-32px)] -translate-x-1/2 items-center gap-3 py-2 pr-2 pl-4 text-12"
    >
      <span className="min-w-0 break-words">{undo.text}</span>
      <Button variant="primary" icon={<Undo2 size={14} aria-hidden="true" />} onClick={takeBack}>
        Undo
      </Button>
      <IconButton label="Dismiss" onClick={settleUndo}>
        <X size={14} aria-hidden="true" />
      </IconButton>
    </div>
  );
}
