import { percentWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown } from '../../../../src/units/known.js';
import type { JobView } from '../../api/types.js';
import { basisWords } from '../../parts/words.js';

interface Bar {
  readonly label: string;
  readonly note: string;
  readonly bytes: number;
  readonly look: 'estimated' | 'reserved' | 'measured' | 'sunk';
}

/** The estimate beside what was measured, on one scale. */
export function NeedBars({ job }: { job: JobView }) {
  const bars = barsOf(job);
  const widest = Math.max(1, ...bars.map(({ bytes }) => bytes));
  return (
    <section aria-labelledby="need-title">
      <h2 id="need-title">Expected and measured</h2>
      <table class="need">
        <caption class="aside">What was expected of this job, beside what was measured</caption>
        <tbody>
          {bars.map(({ label, note, bytes, look }) => (
            <tr key={label}>
              <th scope="row">
                {label} <small>{note}</small>
              </th>
              <td class="bar-cell">
                <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                  <rect class={look} width={Math.max(0.5, (bytes / widest) * 100)} height="10" />
                </svg>
              </td>
              <td class="number">{formatBytes(bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft">
        {job.need.why} {errorWords(job)}
      </p>
    </section>
  );
}

function barsOf({ need, reservation, attempts }: JobView): readonly Bar[] {
  const bars: Bar[] = [];
  if (isKnown(need.estimatedBytes)) {
    bars.push({
      label: 'Estimate',
      note: 'estimated',
      bytes: need.estimatedBytes,
      look: 'estimated',
    });
  }
  bars.push({
    label: reservation === null ? neededLabel(need) : 'Reserved',
    note: basisWords(reservation?.basis ?? need.basis),
    bytes: reservation?.bytes ?? need.bytes,
    look: 'reserved',
  });
  for (const { number, peakBytes, peakFrom, source, outOfMemory } of attempts) {
    if (!isKnown(peakBytes)) continue;
    bars.push({
      label: `Peak of attempt ${number}`,
      note: `${source}, by ${peakFrom}`,
      bytes: peakBytes,
      look: outOfMemory === null ? 'measured' : 'sunk',
    });
  }
  return bars;
}

function neededLabel({ basis }: JobView['need']): string {
  return basis === 'unknown' ? 'A whole device' : 'Needed';
}

/** How far the estimate was off, once that is known. */
function errorWords({ need, attempts }: JobView): string {
  const last = attempts.findLast(({ outOfMemory }) => outOfMemory === null);
  if (last === undefined || !isKnown(last.peakBytes) || !isKnown(need.estimatedBytes)) return '';
  const off = ((need.estimatedBytes - last.peakBytes) / last.peakBytes) * 100;
  if (Math.abs(off) < 0.5) return 'The estimate was right.';
  return `The estimate was ${percentWords(Math.abs(off))} ${off > 0 ? 'above' : 'below'} what was measured.`;
}
