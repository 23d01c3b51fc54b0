import { formatBytes } from '../../../../src/units/bytes.js';
import type { JobHistory, JobView } from '../../api/types.js';
import type { ChartInput, ChartMark } from '../../charts/chart-input.js';
import { ChartBox } from '../../parts/chart-box.js';
import { basisWords } from '../../parts/words.js';
import { type StoryStep, storyOf } from '../../state/jobs/job-story.js';
import { provenanceOfJob } from '../../state/jobs/used-by-job.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';

/** What it held over time, against what is reserved for it. */
export function JobMemory({ job, history }: { job: JobView; history: JobHistory }) {
  const from = useStore(board, ({ devices }) => provenanceOfJob(devices, job));
  const peak = Math.max(0, ...history.usedBytes.map((bytes) => bytes ?? 0));
  return (
    <section aria-labelledby="memory-title">
      <h2 id="memory-title">Memory over time</h2>
      {history.epochMs.length < 2 ? (
        <p class="nothing">
          {job.startedAt === null ? 'It has not started.' : 'Nothing was read of it yet.'}
        </p>
      ) : (
        <>
          <ChartBox input={chartInput(job, history)} label={words(job, peak)} />
          <p class="legend">
            <span class="key use-key">used, {from}</span>
            <span class="key line-key">
              reserved, {basisWords(job.reservation?.basis ?? job.need.basis)}
            </span>
            {job.attempts.some(({ outOfMemory }) => outOfMemory !== null) && (
              <span class="key sunk-key">out of memory</span>
            )}
            {job.attempts.some(({ rungs }) => rungs.length > 0) && (
              <span class="key rung-key">rung climbed</span>
            )}
          </p>
        </>
      )}
    </section>
  );
}

function chartInput(job: JobView, { epochMs, usedBytes }: JobHistory): ChartInput {
  const { reservation, need } = job;
  const reserved = (reservation?.bytes ?? need.bytes) * (reservation?.devices.length ?? 1);
  const peak = Math.max(0, ...usedBytes.map((bytes) => bytes ?? 0));
  return {
    epochMs,
    max: usedBytes,
    min: usedBytes,
    fromMs: epochMs[0] ?? 0,
    toMs: Math.max((epochMs[0] ?? 0) + 1000, epochMs.at(-1) ?? 0),
    nowMs: undefined,
    topBytes: Math.max(reserved, peak, 1) * 1.12,
    capacityBytes: undefined,
    loadLineBytes: reserved,
    lineLabel: `reserved ${formatBytes(reserved)}`,
    cone: undefined,
    marks: [...marksOf(job, 'rung', 'plain'), ...marksOf(job, 'out-of-memory', 'critical')],
  };
}

/** The last are drawn over the others. */
function marksOf(
  job: JobView,
  kind: StoryStep['kind'],
  look: ChartMark['look'],
): readonly ChartMark[] {
  return storyOf(job).flatMap((step) => (step.kind === kind ? [{ atMs: step.atMs, look }] : []));
}

function words(job: JobView, peak: number): string {
  const reserved = formatBytes(job.reservation?.bytes ?? job.need.bytes);
  return `Memory of job ${job.id} over time: at most ${formatBytes(peak)}, with ${reserved} reserved.`;
}
