import type { JobState, Provenance } from '../api/types.js';

/** Where a figure comes from. */
export function ProvenanceTag({ from }: { from: Provenance }) {
  return <span class={`tag ${from}`}>{from}</span>;
}

export function StateTag({ state }: { state: JobState }) {
  return <span class={`state ${state}`}>{state}</span>;
}
