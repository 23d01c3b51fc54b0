import type { ServeRoom } from '../../../src/estimate/serving/serve-estimate.js';
import type { Estimate } from '../../../src/estimate/types.js';
import { verdictOf } from '../../../src/report/estimate-words.js';
import { serveText } from '../../../src/report/text/serve-room-text.js';
import { percentWords } from '../../../src/report/words.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { ProvenanceTag } from '../parts/tags.js';

/** What `POST /estimate` answers. */
export interface EstimateDocument extends Estimate {
  readonly gpu: { readonly name: string; readonly capacityBytes: number };
  /** Where it is for a server of the model. */
  readonly serve?: ServeRoom;
}

/** What a workload needs, and whether the card has it. */
export function EstimateAnswer({ estimate }: { estimate: EstimateDocument }) {
  const { gpu, peak } = estimate;
  const verdict = verdictOf(estimate, gpu);
  return (
    <section class="answer" aria-labelledby="estimate-title">
      <h2 id="estimate-title">
        It needs {formatBytes(peak.leastCapacityBytes)} on a {gpu.name}{' '}
        <ProvenanceTag from="estimated" />
      </h2>
      <p class={`fits ${verdict.fits}`}>{verdict.sentence}</p>
      {estimate.serve !== undefined && <pre class="serve-room">{serveText(estimate.serve)}</pre>}
      <EstimateFigures estimate={estimate} notes={estimate.notes} />
    </section>
  );
}

/** The peak with its interval, and what it is for. */
export function EstimateFigures(props: {
  estimate: Estimate;
  notes: readonly string[];
  /** Given where the budget is one of PyTorch's allocator: the least is then told without it. */
  contextBytes?: number;
}) {
  const { estimate, notes, contextBytes } = props;
  const { peak, interval, breakdown, method } = estimate;
  const widest = Math.max(peak.leastCapacityBytes, interval.highBytes, peak.deviceBytes);
  const share = (bytes: number): number => (bytes / widest) * 100;
  return (
    <>
      <p class="soft">
        By {method}. The peak of one device; the shade is where the truth lies with{' '}
        {percentWords(interval.confidence * 100)} confidence.
      </p>
      <table class="need">
        <caption class="aside">The peak, and what the job can do with</caption>
        <tbody>
          {figuresOf(peak, contextBytes).map(({ label, what, bytes, shaded }) => (
            <tr key={label}>
              <th scope="row">
                {label} <small>{what}</small>
              </th>
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
    </>
  );
}

interface Figure {
  readonly label: string;
  readonly what: string;
  readonly bytes: number;
  readonly shaded: boolean;
}

function figuresOf(peak: Estimate['peak'], contextBytes: number | undefined): readonly Figure[] {
  const shown = { what: '', shaded: false };
  const context = 'with the CUDA context';
  const least =
    contextBytes === undefined
      ? { label: 'Least capacity', what: context, bytes: peak.leastCapacityBytes }
      : {
          label: 'Least',
          what: "for PyTorch's allocator",
          bytes: Math.max(0, peak.leastCapacityBytes - contextBytes),
        };
  return [
    { ...shown, label: 'Live tensors', bytes: peak.allocatedBytes },
    { ...shown, label: "PyTorch's allocator", bytes: peak.reservedBytes, shaded: true },
    { ...shown, label: 'The device', what: context, bytes: peak.deviceBytes },
    { ...shown, ...least },
  ];
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
