import { formatSeconds } from '../../../../src/units/durations.js';
import type { JobView } from '../../api/types.js';
import { clockWords } from '../../parts/words.js';
import { storyOf } from '../../state/jobs/job-story.js';

/** What happened, step by step, with the reasons. */
export function StoryLine({ job }: { job: JobView }) {
  const steps = storyOf(job);
  const start = job.startedAt === null ? undefined : Date.parse(job.startedAt);
  return (
    <section aria-labelledby="story-title">
      <h2 id="story-title">What happened</h2>
      <ol class="story">
        {steps.map(({ atMs, kind, title, detail }) => (
          <li key={`${atMs} ${title}`} class={kind}>
            <time
              dateTime={new Date(atMs).toISOString()}
              title={clockWords(new Date(atMs).toISOString())}
            >
              {start !== undefined && atMs > start + 500
                ? `+${formatSeconds((atMs - start) / 1000)}`
                : clockWords(new Date(atMs).toISOString()).slice(11)}
            </time>
            <div>
              <b>{title}</b>
              <p>{detail}</p>
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
