/** Whose page it is. */
import { createContext, useContext } from "react";
import type { Look } from "../../lib/schedulerStyle";

export const SubjectContext = createContext<Look | null>(null);

export function useSubject(): Look {
  const look = useContext(SubjectContext);
  if (!look) throw new Error("a widget of the scheduler view stands outside of it");
  return look;
}
