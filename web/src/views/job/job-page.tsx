import { hasEnded } from '../../../../src/jobs/types.js';
import { reportAddress } from '../../api/client.js';
import type { JobView } from '../../api/types.js';
import { askToCancel } from '../../parts/cancel-dialog.js';
import { Empty } from '../../parts/empty.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { StateTag } from '../../parts/tags.js';
import { joinCommand } from '../../state/forms/split-command.js';
import { isRecoveryInReason, recoverySentence } from '../../state/jobs/job-story.js';
import { useJob } from '../../state/jobs/open-job.js';
import { useStore } from '../../state/live/store.js';
import { notYours, who } from '../../state/page/who.js';
import { AttemptsTable } from './attempts-table.js';
import { EnvironmentChanges } from './environment-changes.js';
import { JobFacts } from './job-facts.js';
import { JobLog } from './job-log.js';
import { JobMemory } from './job-memory.js';
import { JobProgress } from './job-progress.js';
import { NeedBars } from './need-bars.js';
import { SnapshotFindings } from './snapshot-findings.js';
import { StoryLine } from './story-line.js';

/** One job: where it stands, what it took, what happened to it, what it printed. */
export function JobPage({ id }: { id: string }) {
  const { job, history, refusal } = useJob(id);
  if (job === undefined) {
    if (refusal === undefined) return <p class="nothing">Fetching job {id} …</p>;
    return refusal.status === 404 ? (
      <Empty title={`There is no job ${id}.`}>
        <a href="#/">All jobs</a> are on the overview.
      </Empty>
    ) : (
      <RefusalNote refusal={refusal} />
    );
  }
  return (
    <article class="job-page">
      <Heading job={job} />
      <JobFacts job={job} />
      <div class="columns">
        <JobMemory job={job} history={history} />
        <NeedBars job={job} />
      </div>
      <JobProgress job={job} />
      <AttemptsTable job={job} />
      <SnapshotFindings job={job} />
      <EnvironmentChanges job={job} />
      <StoryLine job={job} />
      <JobLog key={job.id} job={job} />
    </article>
  );
}

/** One that ran and has ended. */
function hasReport({ state, startedAt }: JobView): boolean {
  return hasEnded(state) && startedAt !== null;
}

function Heading({ job }: { job: JobView }) {
  const me = useStore(who, (now) => now);
  const refused = notYours(me, job);
  // Of a waiting job the reason of its place is told; that it was degraded is in any other reason.
  const { waiting } = job;
  const reason = [waiting?.why ?? job.reason, waiting?.order, waiting && job.degraded?.why]
    .filter(Boolean)
    .join(' ');
  const recovery = isRecoveryInReason(job) ? undefined : recoverySentence(job);
  const sentence = [reason, recovery ?? ''].filter((part) => part !== '').join(' ');
  return (
    <>
      <div class="heading job-heading">
        <h1>
          {job.name} <span>#{job.id}</span>
        </h1>
        <StateTag state={job.state} />
        <div class="actions">
          {refused === undefined && hasReport(job) && (
            <a class="button" href={reportAddress(job.id)} target="_blank" rel="noreferrer">
              Report
            </a>
          )}
          {job.startedAt !== null && (
            <a class="button" href={`#/compare/${job.id}`}>
              Compare
            </a>
          )}
          {refused === undefined && (
            <a class="button" href={`#/submit/${job.id}`}>
              Submit again
            </a>
          )}
          {!hasEnded(job.state) && (
            <button
              type="button"
              class="danger"
              id="cancel-job"
              disabled={refused !== undefined}
              title={refused}
              onClick={() => askToCancel(job)}
            >
              Cancel
            </button>
          )}
        </div>
      </div>
      {sentence !== '' && <p class="lede">{sentence}</p>}
      <pre class="command">{joinCommand(job.command)}</pre>
    </>
  );
}
