import { StringDecoder } from 'node:string_decoder';
import { type ClusterEngine, type ClusterJob, hasClusterEnded } from '../../engine/cluster.js';
import { sleepFor } from '../client/follow-log.js';

/** A cluster's controller serves many: it is not asked more often. */
const lookMs = 2000;

/** Copies what a job prints until it ended, or `signal` aborts; answers how it stands then. */
export async function followClusterJob(
  engine: ClusterEngine,
  id: string,
  options: {
    readonly write: (text: string) => void;
    readonly from: number;
    readonly signal: AbortSignal;
  },
): Promise<ClusterJob> {
  const decoder = new StringDecoder('utf8');
  let from = options.from;
  for (;;) {
    // The state first: what was printed before the end is there then.
    const job = await engine.job(id);
    for (;;) {
      const bytes = await engine.log(id, from);
      if (bytes.length === 0) break;
      from += bytes.length;
      options.write(decoder.write(bytes));
    }
    if (hasClusterEnded(job.state) || options.signal.aborted) return job;
    await sleepFor(lookMs, options.signal);
  }
}
