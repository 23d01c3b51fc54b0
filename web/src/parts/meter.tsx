import { isKnown, type Known } from '../../../src/units/known.js';

/** A part of a whole as a bar; more than the whole is marked. */
export function Meter({ part, whole, hue }: { part: Known<number>; whole: number; hue?: string }) {
  const share = isKnown(part) && whole > 0 ? part / whole : 0;
  const width = Math.min(100, Math.round(share * 1000) / 10);
  return (
    <svg
      class={`meter ${hue ?? ''}`}
      viewBox="0 0 100 8"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <rect class="whole" width="100" height="8" />
      <rect class={share > 1 ? 'part over' : 'part'} width={width} height="8" />
    </svg>
  );
}
