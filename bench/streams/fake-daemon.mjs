// A daemon that only talks: eight simulated devices that are read at 10 Hz, and jobs that change.
import { bundled } from '../bundled.mjs';
import { epochMs } from './epoch-ms.mjs';

const GiB = 2 ** 30;
/** Kept as a daemon keeps them, for clients that come back. */
const keptEvents = 1000;

/** The fake daemon of the tests, with events as large as those of a busy machine. */
export async function talkingDaemon(gpus) {
  const { createFakeDaemon } = await bundled('src/server/fake-daemon-for-tests.ts');
  const { madeDevice, madeJob } = await bundled('src/jobs/daemon/made-for-tests.ts');
  const daemon = createFakeDaemon({ keptEvents });
  let readings = 0;
  let jobs = 0;
  return Object.assign(daemon, {
    publishDevices() {
      readings += 1;
      const devices = Array.from({ length: gpus }, (_, index) =>
        madeDevice(deviceParts(index, readings)),
      );
      daemon.publish({ type: 'devices', epochMs: epochMs(), devices });
    },
    publishJob() {
      jobs += 1;
      // Its time lies where every client finds it. One job stays: memory must not grow.
      daemon.put({ ...madeJob(jobParts(jobs)), id: '1', epochMs: epochMs() }, 'started');
    },
  });
}

/** As large on the wire as a device with four jobs is. */
function deviceParts(index, number) {
  const usedBytes = Math.round((40 + 10 * Math.sin(number / 50 + index)) * GiB);
  return {
    id: `gpu:${index}`,
    name: 'NVIDIA H100 80GB HBM3',
    totalBytes: 80 * GiB,
    usedBytes,
    freeBytes: 80 * GiB - usedBytes,
    processes: Array.from({ length: 4 }, (_, at) => ({
      pid: 1000 + 10 * index + at,
      name: 'python',
      usedBytes: Math.round(usedBytes / 4),
    })),
    loadLineBytes: 72 * GiB,
    reservedBytes: 60 * GiB,
    availableBytes: 12 * GiB,
    reservations: Array.from({ length: 4 }, (_, at) => ({
      jobId: String(4 * index + at),
      name: `train-${at}`,
      bytes: 15 * GiB,
      usedBytes: Math.round(usedBytes / 4),
      isReleasing: false,
    })),
  };
}

function jobParts(number) {
  return {
    id: String(number),
    name: `train-${number}`,
    state: 'running',
    command: ['python', 'train.py', '--batch-size', '{batch_size}', '--seed', String(number)],
    submittedAt: new Date().toISOString(),
    reservation: { devices: [`gpu:${number % 8}`], bytes: 15 * GiB, basis: 'estimated' },
    waiting: null,
  };
}
