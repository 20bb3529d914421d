/** Selection of two runs for a comparison. */
interface Picked {
  a: string | null;
  b: string | null;
}

/**
 * Selects a run; a third replaces the newer one, and selecting a run again removes it. The older one is A, before:
 * identifiers of runs sort by time.
 */
export function pick({ a, b }: Picked, id: string): Picked {
  if (a === id) return { a: b, b: null };
  if (b === id) return { a, b: null };
  if (a === null) return { a: id, b };
  return a < id ? { a, b: id } : { a: id, b: a };
}
