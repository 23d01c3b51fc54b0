import type { ComponentChildren } from 'preact';
import type { Refusal } from '../api/refusal.js';
import type { JobState, Provenance } from '../api/types.js';

/** Nothing is there yet: what that means, and what to type. */
export function Empty(props: { title: string; command?: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{props.title}</p>
      <p>{props.children}</p>
      {props.command !== undefined && <pre>{props.command}</pre>}
    </div>
  );
}

/** The mark on a ship's hull: a disc and the line that the water must not pass. */
export function Emblem() {
  return (
    <svg class="emblem" viewBox="0 0 48 32" width="48" height="32" aria-hidden="true">
      <circle cx="24" cy="16" r="11" />
      <line x1="3" x2="45" y1="16" y2="16" />
    </svg>
  );
}

/** Shows the source of a figure. */
export function ProvenanceTag({ from }: { from: Provenance }) {
  return <span class={`tag ${from}`}>{from}</span>;
}

export function StateTag({ state }: { state: JobState }) {
  return <span class={`state ${state}`}>{state}</span>;
}

/** Shows an error and its next step. */
export function RefusalNote({ refusal }: { refusal: Refusal }) {
  return (
    <div class="refusal" role="alert">
      <p>
        <b>{refusal.fact}</b>
      </p>
      <p>{refusal.next}</p>
    </div>
  );
}
