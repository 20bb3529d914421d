import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api } from "../../client/api";
import type { Program, ProgramSummary } from "../../client/models";
import { useLive } from "../../store/liveStore";
import { type Call, callsOf, joined } from "./programCalls";

interface ProgramView {
  programs: readonly ProgramSummary[];
  program: Program | null;
  calls: readonly Call[];
}

/** Polls a program once a second; each answer has only the calls that are new. */
export function useProgram(runId: string | null) {
  const frozen = useLive((s) => s.frozen);
  const known = useRef<{ runId: string; after: number; calls: Call[] } | null>(null);
  return useQuery({
    queryKey: ["programs", runId],
    queryFn: async ({ signal }): Promise<ProgramView> => {
      let before = known.current;
      if (before && runId !== null && before.runId !== runId) before = null;
      let answer = await api.programs({ run_id: runId, after: before?.after ?? 0 }, { signal });
      // Without a choice the newest program is meant, which may have changed since the last answer.
      if (before && answer.current && answer.current.run_id !== before.runId) {
        before = null;
        answer = await api.programs({ run_id: answer.current.run_id, after: 0 }, { signal });
      }
      const program = answer.current ?? null;
      if (!program) return { programs: answer.programs, program, calls: [] };
      const calls = joined(before?.calls ?? [], callsOf(program.tasks));
      known.current = { runId: program.run_id, after: program.next_after, calls };
      return { programs: answer.programs, program, calls };
    },
    refetchInterval: (query) => {
      if (frozen) return false;
      const program = query.state.data?.program;
      // A long program is read in pieces: the next one follows at once.
      return program && program.next_after < program.finished ? 100 : 1_000;
    },
    staleTime: 0,
    gcTime: 0,
  });
}
