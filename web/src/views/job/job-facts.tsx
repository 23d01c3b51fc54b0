import type { ComponentChildren } from 'preact';
import { degradedSettingsWords } from '../../../../src/jobs/degraded.js';
import { ownerName } from '../../../../src/jobs/types.js';
import { placesWords } from '../../../../src/run/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown } from '../../../../src/units/known.js';
import type { JobView } from '../../api/types.js';
import { useNow } from '../../parts/clock.js';
import { agoWords, basisWords, clockWords, spanWords } from '../../parts/words.js';
import { provenanceOfJob } from '../../state/jobs/used-by-job.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';

/** The figures of a job; what does not apply is left out. */
export function JobFacts({ job }: { job: JobView }) {
  const now = useNow();
  const from = useStore(board, ({ devices }) => provenanceOfJob(devices, job));
  const end = job.endedAt === null ? now : Date.parse(job.endedAt);
  const { reservation, waiting, degraded } = job;
  return (
    <dl class="grid">
      <Fact name="Submitted" note={clockWords(job.submittedAt)}>
        {agoWords(Date.parse(job.submittedAt), now)}
      </Fact>
      {job.owner !== ownerName && (
        <Fact name="Owner" note="">
          {job.owner}
        </Fact>
      )}
      {job.startedAt === null ? (
        <Fact name={job.endedAt === null ? 'Waits for' : 'Waited'} note="">
          {spanWords(job.submittedAt, end)}
        </Fact>
      ) : (
        <Fact
          name={job.endedAt === null ? 'Runs for' : 'Ran'}
          note={`waited ${spanWords(job.submittedAt, Date.parse(job.startedAt))}`}
        >
          {spanWords(job.startedAt, end)}
        </Fact>
      )}
      {waiting !== null && (
        <Fact name="Expected to start" note={`place ${waiting.position} in the queue`}>
          {isKnown(waiting.expectedStartAt)
            ? agoWords(Date.parse(waiting.expectedStartAt), now)
            : 'unknown'}
        </Fact>
      )}
      {waiting?.expiresAt != null && (
        <Fact name="Expires" note={clockWords(waiting.expiresAt)}>
          {agoWords(Date.parse(waiting.expiresAt), now)}
        </Fact>
      )}
      {reservation !== null && (
        <Fact
          name="Reserved"
          note={`${basisWords(reservation.basis)}, on ${placesWords(reservation)}`}
        >
          {formatBytes(reservation.bytes)}
        </Fact>
      )}
      {job.state === 'running' && (
        <Fact name="Uses now" note={from}>
          {formatBytes(job.usedBytes)}
        </Fact>
      )}
      {degraded !== null && (
        <Fact name="Degraded" note="so that it fits">
          {degradedSettingsWords(degraded)}
        </Fact>
      )}
      <Fact
        name="Priority"
        note={
          job.gpus === 0 ? "on the host's memory" : `${job.gpus} device${job.gpus === 1 ? '' : 's'}`
        }
      >
        {job.priority}
      </Fact>
      <Fact name="Folder" note="" wide>
        <code>{job.cwd}</code>
      </Fact>
    </dl>
  );
}

function Fact(props: { name: string; note: string; wide?: boolean; children: ComponentChildren }) {
  return (
    <div class={props.wide === true ? 'wide' : ''}>
      <dt>{props.name}</dt>
      <dd>
        {props.children} <small>{props.note}</small>
      </dd>
    </div>
  );
}
