import { afterAll, beforeAll } from 'vitest';
import { findGpu } from '../../src/estimate/cards/gpus.js';
import type { Fleet } from '../../src/fleet/document.js';
import { estimate } from '../../src/report/estimate-for-tests.js';
import { budget, plan } from '../../src/report/plan-for-tests.js';
import { type OpenServer, openServer } from '../../src/server/open-server.js';
import { namesExample } from '../../src/server/routes/examples.js';
import { systemClock } from '../../src/time/clock.js';
import { openFakeDaemon } from '../../web/testing/fake-daemon.js';
import { builtPage } from './built-page.js';

/** Ten readings a second, as a real machine has them. */
const everyMs = 100;

/** A trace that does not end. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')));
  });
}

/** The real server and page over a daemon with nothing behind it: 8 GPUs and many jobs. */
export function useFakeServer(options: {
  readonly jobs: number;
  readonly token?: string;
  /** What its Prometheus knows; left out, it has none. */
  readonly fleet?: Fleet;
}): {
  readonly url: () => string;
} {
  const { fleet } = options;
  let server: OpenServer | undefined;
  let timer: ReturnType<typeof setInterval> | undefined;
  beforeAll(async () => {
    const daemon = openFakeDaemon({
      gpus: 8,
      jobs: options.jobs,
      seed: 7,
      nowMs: Date.now(),
    });
    timer = setInterval(() => daemon.tick(Date.now()), everyMs);
    server = await openServer({
      daemon,
      answers: {
        estimate: () => Promise.resolve({ ...estimate, gpu: findGpu('h200') }),
        plan: ({ model, method }, signal) =>
          model === 'slow' && method !== 'formula'
            ? untilAborted(signal)
            : Promise.resolve({ ...plan, budget }),
        estimateAssumptions: () => Promise.resolve({ seq: 2048, precision: 'bf16' }),
        planAssumptions: () => Promise.resolve({ seq: 1024 }),
        names: () => Promise.resolve(namesExample),
      },
      host: '127.0.0.1',
      port: 0,
      token: options.token,
      fleet: fleet && (() => Promise.resolve(fleet)),
      webFolder: await builtPage(),
      version: '0.0.0',
      clock: systemClock,
      log: () => undefined,
    });
  });
  afterAll(async () => {
    clearInterval(timer);
    await server?.close();
  });
  return { url: () => server?.url ?? '' };
}
