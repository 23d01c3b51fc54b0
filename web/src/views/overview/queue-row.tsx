import { degradedSettingsWords } from '../../../../src/jobs/degraded.js';
import { hasEnded, ownerName } from '../../../../src/jobs/types.js';
import { placesWords } from '../../../../src/run/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import type { JobSummary } from '../../api/types.js';
import { askToCancel } from '../../parts/cancel-dialog.js';
import { useNow } from '../../parts/clock.js';
import { Meter } from '../../parts/meter.js';
import { StateTag } from '../../parts/tags.js';
import { useHue } from '../../parts/use-hue.js';
import type { RowStyle } from '../../parts/virtual-rows.js';
import { agoWords, coarse, usedOfReserved } from '../../parts/words.js';
import { joinCommand } from '../../state/forms/split-command.js';
import { usedByJob } from '../../state/jobs/used-by-job.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { notYours, who } from '../../state/page/who.js';

/** One job in the list. */
export function QueueRow({
  job,
  index,
  style,
}: {
  job: JobSummary;
  index: number;
  style: RowStyle;
}) {
  const ended = hasEnded(job.state);
  const isHeld = useStore(who, (me) => notYours(me, job)) !== undefined;
  return (
    <div role="row" class="job-row" aria-rowindex={index + 2} style={{ ...style }}>
      <span role="cell" class="of-state">
        <StateTag state={job.state} />
      </span>
      <span role="cell" class="of-job">
        <a href={`#/job/${job.id}`} data-row={index}>
          {job.name}
        </a>
        <small>
          #{job.id} {job.owner !== ownerName && `${job.owner} `}
          <code>{joinCommand(job.command)}</code>
        </small>
      </span>
      <span role="cell" class="of-memory">
        <Memory job={job} />
      </span>
      <span role="cell" class="of-reason">
        <Happening job={job} />
      </span>
      <span role="cell" class="of-time right">
        <When job={job} />
      </span>
      <span role="cell" class="of-cancel">
        {!ended && !isHeld && (
          <button
            type="button"
            class="quiet"
            aria-label={`Cancel ${job.name}`}
            onClick={() => askToCancel(job)}
          >
            Cancel
          </button>
        )}
      </span>
    </div>
  );
}

function Memory({ job }: { job: JobSummary }) {
  const used = useStore(board, ({ devices }) => usedByJob(devices, job.id));
  const hue = useHue(job.id);
  const peak = peakOf(job);
  if (job.state === 'running') {
    const whole =
      (job.reservation?.bytes ?? job.need.bytes) * (job.reservation?.devices.length ?? 1);
    return (
      <>
        {usedOfReserved(used, whole)}
        <Meter part={used} whole={whole} hue={hue} />
      </>
    );
  }
  if (isKnown(peak)) {
    return (
      <>
        {formatBytes(peak)}{' '}
        <small>peak of {formatBytes(job.reservation?.bytes ?? job.need.bytes)}</small>
      </>
    );
  }
  if (job.need.basis === 'unknown') return <>a whole device</>;
  return (
    <>
      {formatBytes(job.need.bytes)} <small>{job.need.basis}</small>
    </>
  );
}

/** Why it waits, where it runs, how it ended. */
function Happening({ job }: { job: JobSummary }) {
  const retries = job.attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  // One that failed or was cancelled has not recovered.
  const isRecovered = job.state === 'running' || job.state === 'succeeded';
  if (job.state === 'waiting') {
    return (
      <span class="why">
        {job.degraded !== null && <b>degraded to {degradedSettingsWords(job.degraded)}</b>}{' '}
        {job.waiting?.why ?? job.reason} {job.waiting?.order}
      </span>
    );
  }
  const places = job.reservation === null ? '' : placesWords(job.reservation);
  const text = job.reason === '' && job.state === 'running' ? `on ${places}` : job.reason;
  return (
    <span class="why">
      {retries > 0 && (
        <b class={isRecovered ? 'recovered' : 'ran-out'}>
          {isRecovered ? `recovered ${retries} ×` : `out of memory ${retries} ×`}
        </b>
      )}{' '}
      {text === '' ? places : text}
    </span>
  );
}

function When({ job }: { job: JobSummary }) {
  const now = useNow();
  if (job.state === 'waiting') {
    const start = job.waiting?.expectedStartAt ?? 'unknown';
    return (
      <>
        {isKnown(start) ? agoWords(Date.parse(start), Math.min(now, Date.parse(start))) : 'unknown'}{' '}
        <small>{job.waiting === null ? 'queued' : `place ${job.waiting.position}`}</small>
      </>
    );
  }
  if (job.state === 'running' && job.startedAt !== null) {
    return (
      <>
        {coarse(Math.max(0, (now - Date.parse(job.startedAt)) / 1000))} <small>so far</small>
      </>
    );
  }
  const end = Date.parse(job.endedAt ?? job.submittedAt);
  return (
    <>
      {agoWords(end, now)}{' '}
      {job.startedAt !== null && (
        <small>ran {coarse((end - Date.parse(job.startedAt)) / 1000)}</small>
      )}
    </>
  );
}

function peakOf({ attempts }: JobSummary): Known<number> {
  const known = attempts.flatMap(({ peakBytes }) => (isKnown(peakBytes) ? [peakBytes] : []));
  return known.length === 0 ? 'unknown' : Math.max(...known);
}
