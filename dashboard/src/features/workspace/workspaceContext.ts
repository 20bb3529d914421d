import { createContext, useContext } from "react";
import type { Row, Source } from "./workspaceData";

interface WorkspaceData {
  sources: readonly Source[];
  rows: readonly Row[];
  /** Rows that pass the filters of the parallel coordinates. */
  kept: readonly Row[];
  pending: boolean;
  /** Runs and sweeps that could not be loaded. */
  failed: readonly string[];
}

export const WorkspaceContext = createContext<WorkspaceData>({
  sources: [],
  rows: [],
  kept: [],
  pending: false,
  failed: [],
});

export const useWorkspace = (): WorkspaceData => useContext(WorkspaceContext);
