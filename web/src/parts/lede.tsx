import { formatBytes } from '../../../src/units/bytes.js';
import { isKnown } from '../../../src/units/known.js';
import { board } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { devicesForJobs, headlineOf } from '../state/page/headline.js';
import { ProvenanceTag } from './tags.js';

/** The one thing to know, and the sums. */
export function Lede() {
  const devices = useStore(board, (now) => now.devices);
  const counts = useStore(board, (now) => now.counts);
  const loaded = useStore(board, (now) => now.loaded);
  if (!loaded || devices.length === 0) return null;
  const headline = headlineOf(devices, counts);
  const forJobs = devicesForJobs(devices);
  const sum = (bytes: (device: (typeof devices)[number]) => number): string =>
    formatBytes(forJobs.reduce((total, device) => total + bytes(device), 0));
  return (
    <div class="lede-block">
      <p class={`lede ${headline.level}`}>
        {headline.text} {headline.estimated && <ProvenanceTag from="estimated" />}
      </p>
      <dl class="facts">
        <div>
          <dt>Running</dt>
          <dd>{counts.running.toLocaleString('en-US')}</dd>
        </div>
        <div>
          <dt>Waiting</dt>
          <dd>{counts.waiting.toLocaleString('en-US')}</dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>{sum(({ totalBytes }) => (isKnown(totalBytes) ? totalBytes : 0))}</dd>
        </div>
        <div>
          <dt>Used</dt>
          <dd>{sum(({ usedBytes }) => (isKnown(usedBytes) ? usedBytes : 0))}</dd>
        </div>
        <div>
          <dt>Reserved</dt>
          <dd>{sum(({ reservedBytes }) => reservedBytes)}</dd>
        </div>
        <div>
          <dt>Available to jobs</dt>
          <dd>{sum(({ availableBytes }) => availableBytes)}</dd>
        </div>
        <div>
          <dt class="aside">Figures are</dt>
          <dd>
            {[...new Set(forJobs.map(({ provenance }) => provenance))].map((from) => (
              <ProvenanceTag key={from} from={from} />
            ))}
          </dd>
        </div>
      </dl>
    </div>
  );
}
