/** The mark on a ship's hull: a disc and the line that the water must not pass. */
export function Emblem() {
  return (
    <svg class="emblem" viewBox="0 0 48 32" width="48" height="32" aria-hidden="true">
      <circle cx="24" cy="16" r="11" />
      <line x1="3" x2="45" y1="16" y2="16" />
    </svg>
  );
}
