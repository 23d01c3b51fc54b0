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
    /** Left out, what it prints is not wanted, and not read. */
    readonly write?: ((text: string) => void) | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ClusterJob> {
  const { write, signal } = options;
  const decoder = new StringDecoder('utf8');
  if (write !== undefined && engine.followLog !== undefined && !signal.aborted) {
    await engine.followLog(id, (bytes) => write(decoder.write(bytes)), signal);
    return engine.job(id);
  }
  let from = 0;
  for (;;) {
    // The state first: what was printed before the end is there then.
    const job = await engine.job(id);
    if (write !== undefined)
      from = await copyNew(engine, id, from, (bytes) => write(decoder.write(bytes)));
    if (hasClusterEnded(job.state) || signal.aborted) return job;
    await sleepFor(lookMs, signal);
  }
}

/** All that is there from this byte on; answers where it ends. */
async function copyNew(
  engine: ClusterEngine,
  id: string,
  from: number,
  take: (bytes: Buffer) => void,
): Promise<number> {
  for (let at = from; ; ) {
    const bytes = await engine.log(id, at);
    if (bytes.length === 0) return at;
    at += bytes.length;
    take(bytes);
  }
}
