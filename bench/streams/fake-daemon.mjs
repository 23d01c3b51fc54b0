// A daemon that only talks: eight simulated devices that are read at 10 Hz, and jobs that change.
const GiB = 2 ** 30;
/** Kept as a daemon keeps them, for clients that come back. */
const keptChanges = 1000;

/** Milliseconds since 1970, finer than `Date.now()`, and the same in every process of a machine. */
export function epochMs() {
  return performance.timeOrigin + performance.now();
}

export class FakeDaemon {
  #listeners = new Set();
  #kept = [];
  #last = 0;
  #number = 0;

  constructor(gpus) {
    this.gpus = gpus;
  }

  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tellDevices() {
    this.#tell({ type: 'devices', epochMs: epochMs(), devices: this.devices() });
  }

  tellJob() {
    const id = ++this.#last;
    // Its time lies where every client finds it.
    const job = { ...summary(id), submittedAt: new Date().toISOString() };
    const event = { type: 'job', id, what: 'started', job, epochMs: epochMs() };
    this.#kept.push(event);
    if (this.#kept.length > keptChanges) this.#kept.shift();
    this.#tell(event);
  }

  #tell(event) {
    for (const listener of this.#listeners) listener(event);
  }

  devices() {
    this.#number += 1;
    return Array.from({ length: this.gpus }, (_, index) => device(index, this.#number));
  }

  eventsAfter(id, most) {
    const events = this.#kept.filter((event) => event.id > id).slice(0, most);
    return { events, first: this.#kept[0]?.id ?? this.#last + 1, last: this.#last };
  }

  jobs() {
    return [];
  }

  counts() {
    const states = ['waiting', 'running', 'succeeded', 'failed', 'cancelled', 'refused', 'expired'];
    return Object.fromEntries(states.map((state) => [state, 0]));
  }
}

/** As large on the wire as a device with four jobs is. */
function device(index, number) {
  const usedBytes = Math.round((40 + 10 * Math.sin(number / 50 + index)) * GiB);
  return {
    id: `gpu:${index}`,
    name: 'NVIDIA H100 80GB HBM3',
    source: 'simulated',
    provenance: 'simulated',
    totalBytes: 80 * GiB,
    usedBytes,
    freeBytes: 80 * GiB - usedBytes,
    processes: Array.from({ length: 4 }, (_, at) => ({
      pid: 1000 + 10 * index + at,
      name: 'python',
      usedBytes: Math.round(usedBytes / 4),
    })),
    loadLineBytes: 72 * GiB,
    otherProcessesBytes: 0,
    reservedBytes: 60 * GiB,
    releasingBytes: 0,
    availableBytes: 12 * GiB,
    reservations: Array.from({ length: 4 }, (_, at) => ({
      jobId: String(4 * index + at),
      name: `train-${at}`,
      bytes: 15 * GiB,
      usedBytes: Math.round(usedBytes / 4),
      isReleasing: false,
    })),
    forecast: {
      risk: 'none',
      etaSeconds: 'never',
      lowSeconds: 'never',
      highSeconds: 'never',
      confidence: 0.9,
      bytesPerSecond: 0,
      reason: 'Use is steady.',
      recommendations: [],
      provenance: 'estimated',
    },
    alerts: [],
    takesJobs: true,
  };
}

function summary(id) {
  return {
    id: String(id),
    name: `train-${id}`,
    state: 'running',
    reason: 'It runs.',
    command: ['python', 'train.py', '--batch-size', '{batch_size}', '--seed', String(id)],
    priority: 0,
    startedAt: null,
    endedAt: null,
    reservation: { devices: [`gpu:${id % 8}`], bytes: 15 * GiB, basis: 'estimated' },
    attempts: [],
    need: {
      bytes: 15 * GiB,
      basis: 'estimated',
      why: 'Estimated at 15.0 GiB; no run of it was measured yet.',
      estimatedBytes: 15 * GiB,
      runs: 0,
    },
    waiting: null,
    gpus: 1,
  };
}
