import type { Refusal } from '../api/refusal.js';

/** What went wrong, and what to do. */
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
