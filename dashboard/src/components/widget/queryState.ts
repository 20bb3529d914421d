import type { UseQueryResult } from "@tanstack/react-query";
import { type BodyState, READY, type Shape } from "./panelState";

/** State of a widget on REST data. Earlier data remain after an error. */
export function queryState(
  query: Pick<UseQueryResult, "data" | "error" | "refetch">,
  title: string,
  shape: Shape = "bars",
): BodyState {
  if (query.data !== undefined) return READY;
  if (query.error) return { kind: "error", title, error: query.error, retry: () => void query.refetch() };
  return { kind: "loading", shape };
}
