import type { Estimate } from '../../../src/estimate/contract.js';
import { percentWords } from '../../../src/report/words.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { ProvenanceTag } from '../parts/tags.js';

/** What a workload needs: the peak with its interval, and what it is for. */
export function EstimateAnswer({ estimate }: { estimate: Estimate }) {
  const { peak, interval, breakdown, notes, method } = estimate;
  const widest = Math.max(peak.leastCapacityBytes, interval.highBytes, peak.deviceBytes);
  const share = (bytes: number): number => (bytes / widest) * 100;
  return (
    <section class="answer" aria-labelledby="estimate-title">
      <h2 id="estimate-title">
        It needs {formatBytes(peak.leastCapacityBytes)} <ProvenanceTag from="estimated" />
      </h2>
      <p class="soft">
        By {method}. The peak of one device; the shade is where the truth lies with{' '}
        {percentWords(interval.confidence * 100)} confidence.
      </p>
      <table class="need">
        <caption class="aside">The peak, counted in three ways</caption>
        <tbody>
          {(
            [
              ['Live tensors', peak.allocatedBytes, false],
              ["PyTorch's allocator", peak.reservedBytes, true],
              ['The device', peak.deviceBytes, false],
              ['Least capacity', peak.leastCapacityBytes, false],
            ] as const
          ).map(([label, bytes, shaded]) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td class="bar-cell">
                <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                  <rect class="measured" width={share(bytes)} height="10" />
                  {shaded && (
                    <rect
                      class="interval"
                      x={share(interval.lowBytes)}
                      width={share(interval.highBytes - interval.lowBytes)}
                      y="2.5"
                      height="5"
                    />
                  )}
                </svg>
              </td>
              <td class="number">
                {formatBytes(bytes)}{' '}
                {shaded && (
                  <small>
                    {formatBytes(interval.lowBytes)} to {formatBytes(interval.highBytes)}
                  </small>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <h3>For what</h3>
      <Breakdown breakdown={breakdown} whole={peak.deviceBytes} />
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Breakdown({ breakdown, whole }: { breakdown: Estimate['breakdown']; whole: number }) {
  let before = 0;
  const parts = breakdown.map((entry, index) => {
    const from = before;
    before += entry.bytes;
    return { ...entry, from, index };
  });
  return (
    <>
      <svg class="bar tall" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ part, bytes, from, index }) => (
          <rect
            key={part}
            class={`hue-${index % 10} of-hue`}
            x={(from / whole) * 100}
            width={(bytes / whole) * 100}
            height="10"
          />
        ))}
      </svg>
      <table class="parts">
        <caption class="aside">What the memory is for</caption>
        <tbody>
          {parts.map(({ part, bytes, index }) => (
            <tr key={part} class={`hue-${index % 10}`}>
              <th scope="row">
                <i class="swatch" />
                {part}
              </th>
              <td class="number">{formatBytes(bytes)}</td>
              <td class="number">{percentWords((bytes / whole) * 100, 1)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
