import type { Estimate, PartBytes } from '../../../../src/estimate/types.js';
import { moduleRows } from '../../../../src/report/estimate-words.js';
import { percentWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';

/** What fills the device at the peak: a bar, and each part with its share. */
export function MemoryParts({ breakdown, peak }: Pick<Estimate, 'breakdown' | 'peak'>) {
  const whole = peak.deviceBytes;
  let before = 0;
  const segments = breakdown.map(({ part, bytes }) => {
    const from = before;
    before += bytes;
    return { part, bytes, from };
  });
  return (
    <>
      <svg class="bar tall" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        {segments.map(({ part, bytes, from }) => (
          <rect
            key={part}
            class={`part-${part}`}
            x={(from / whole) * 100}
            width={(bytes / whole) * 100}
            height="10"
          />
        ))}
      </svg>
      <table class="parts">
        <caption class="aside">What the memory is for</caption>
        <tbody>
          {breakdown.map((entry) => (
            <PartRows key={entry.part} entry={entry} whole={whole} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function PartRows({ entry, whole }: { entry: PartBytes; whole: number }) {
  const { part, bytes } = entry;
  return (
    <>
      <tr>
        <th scope="row">
          <i class={`swatch part-${part}`} />
          {part}
        </th>
        <td class="number">{formatBytes(bytes)}</td>
        <td class="number">{percentWords((bytes / whole) * 100, 1)}</td>
      </tr>
      {moduleRows(entry).map((module) => (
        <tr key={module.name} class="module">
          <th scope="row">{module.name}</th>
          <td class="number">{formatBytes(module.bytes)}</td>
          <td />
        </tr>
      ))}
    </>
  );
}
