import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Daemon, DaemonEvent, DeviceView, JobSummary } from '../../jobs/daemon/types.js';
import { hasEnded, jobStates } from '../../jobs/types.js';
import type { AttemptBuffers } from '../../run/types.js';
import { isKnown } from '../../units/known.js';
import {
  alertSeries,
  alertsTotal,
  deviceFamilies,
  type JobFigures,
  jobFamilies,
  metricText,
  nodeFamily,
} from './families.js';

/** Methods that have a name of their own in the metrics; a stranger cannot add to them. */
const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']);

/** Figures for Prometheus. */
export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
  countRequest(request: { method: string; route: string; status: number }): void;
  close(): void;
}

/**
 * A registry of its own, so that two servers in one process do not mix. What is there now is looked
 * at when somebody asks; what happens is counted as it happens.
 */
export function openMetrics(
  daemon: Daemon,
  streams: () => number,
  node: { readonly name: string; readonly version: string },
): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const stop = jobCounters(daemon, registry);
  const jobs = new Gauge({
    name: 'plimsoll_jobs',
    help: 'Jobs, by state.',
    labelNames: ['state'],
    registers,
  });
  const eventStreams = new Gauge({
    name: 'plimsoll_event_streams',
    help: 'Clients that listen to events.',
    registers,
  });
  const requests = new Counter({
    name: 'plimsoll_http_requests_total',
    help: 'Requests, by method, route and status.',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  return {
    contentType: registry.contentType,
    async text() {
      const counts = daemon.counts();
      for (const state of jobStates) jobs.set({ state }, counts[state]);
      eventStreams.set(streams());
      const devices = daemon.devices();
      const figures = metricText([
        nodeFamily(node.name, node.version),
        ...deviceFamilies(devices),
        ...jobFamilies(devices.flatMap(jobsOn)),
      ]);
      return `${await registry.metrics()}\n${figures}`;
    },
    countRequest({ method, route, status }) {
      const known = methods.has(method) ? method : 'other';
      requests.inc({ method: known, route, status: String(status) });
    },
    close() {
      stop();
      registry.clear();
    },
  };
}

function jobsOn({ id: device, reservations }: DeviceView): readonly JobFigures[] {
  return reservations
    .filter(({ isReleasing }) => !isReleasing)
    .map(({ jobId, name, bytes: reservedBytes, usedBytes }) => ({
      jobId,
      name,
      device,
      reservedBytes,
      usedBytes,
    }));
}

/** Ends that were counted already: a job may be told of again after it ended. */
const rememberedEnds = 10_000;

/** Counts what happens to jobs from now on. Answers how to stop. */
function jobCounters(daemon: Daemon, registry: Registry): () => void {
  const registers = [registry];
  const submitted = new Counter({
    name: 'plimsoll_jobs_submitted_total',
    help: 'Jobs that were submitted.',
    registers,
  });
  const ended = new Counter({
    name: 'plimsoll_jobs_ended_total',
    help: 'Jobs that ended, by how.',
    labelNames: ['state'],
    registers,
  });
  const attempts = new Counter({
    name: 'plimsoll_attempts_total',
    help: 'Tries that ended, by whether memory ran out.',
    labelNames: ['out_of_memory'],
    registers,
  });
  const requests = new Counter({
    name: 'plimsoll_buffer_requests_total',
    help: 'Requests to the buffer stores of attempts that ended, by result.',
    labelNames: ['result'],
    registers,
  });
  const evictions = new Counter({
    name: 'plimsoll_buffer_evictions_total',
    help: 'Items that the buffer stores of attempts that ended had evicted.',
    registers,
  });
  const held = new Counter({
    name: 'plimsoll_buffer_bytes_total',
    help: 'Bytes in the buffer stores of attempts at their end: raw, and as they were held.',
    labelNames: ['as'],
    registers,
  });
  const waited = new Histogram({
    name: 'plimsoll_job_waiting_seconds',
    help: 'How long jobs waited before they started.',
    buckets: [0.1, 1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600],
    registers,
  });
  const errorRatio = new Histogram({
    name: 'plimsoll_estimate_error_ratio',
    help: 'Measured peak of a job over the bytes that were reserved for it.',
    buckets: [0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2],
    registers,
  });
  const alerts = new Counter({
    ...alertsTotal,
    labelNames: ['kind', 'severity'],
    registers,
  });

  // A series that appears with a 1 has not grown for Prometheus: the first of each would be missed.
  for (const state of jobStates.filter(hasEnded)) ended.inc({ state }, 0);
  for (const out_of_memory of ['true', 'false']) attempts.inc({ out_of_memory }, 0);
  for (const result of ['hit', 'miss']) requests.inc({ result }, 0);
  for (const as of ['raw', 'held']) held.inc({ as }, 0);
  for (const series of alertSeries) alerts.inc({ ...series }, 0);

  /** Ids of jobs only grow. */
  let newest = Number(daemon.jobs({ newestFirst: true, limit: 1 })[0]?.id ?? 0);
  /** How many attempts were counted, of jobs that run. */
  const running = new Map(
    daemon.jobs({ states: ['running'] }).map(({ id, attempts: made }) => [id, made.length]),
  );
  const ends = new Set<string>();

  function countJob(job: JobSummary): void {
    if (ends.has(job.id)) return;
    if (Number(job.id) > newest) {
      newest = Number(job.id);
      submitted.inc();
    }
    if (job.startedAt !== null) countRun(job, job.startedAt);
    if (hasEnded(job.state)) countEnd(job);
  }

  function countRun({ id, submittedAt, attempts: made }: JobSummary, startedAt: string): void {
    const counted = running.get(id);
    if (counted === undefined) {
      waited.observe(Math.max(0, Date.parse(startedAt) - Date.parse(submittedAt)) / 1000);
    }
    for (const { outOfMemory, buffers } of made.slice(counted ?? 0)) {
      attempts.inc({ out_of_memory: String(outOfMemory !== null) });
      if (buffers !== undefined) countBuffers(buffers);
    }
    running.set(id, made.length);
  }

  function countBuffers(buffers: AttemptBuffers): void {
    requests.inc({ result: 'hit' }, buffers.hits);
    requests.inc({ result: 'miss' }, buffers.misses);
    evictions.inc(buffers.evictions);
    held.inc({ as: 'raw' }, buffers.rawBytes);
    held.inc({ as: 'held' }, buffers.memoryBytes + buffers.fileBytes);
  }

  function countEnd({ id, state, reservation, attempts: made }: JobSummary): void {
    running.delete(id);
    ends.add(id);
    const [oldest] = ends;
    if (ends.size > rememberedEnds && oldest !== undefined) ends.delete(oldest);
    ended.inc({ state });
    const peaks = made
      .filter(({ source }) => source === 'measured')
      .map(({ peakBytes }) => peakBytes)
      .filter(isKnown);
    // Of a job of which nothing was known there was no figure to be wrong.
    const hasFigure = reservation !== null && reservation.basis !== 'unknown';
    if (hasFigure && reservation.bytes > 0 && peaks.length > 0) {
      errorRatio.observe(Math.max(...peaks) / reservation.bytes);
    }
  }

  return daemon.listen((event: DaemonEvent) => {
    if (event.type === 'job') countJob(event.job);
    else if (event.type === 'alert' && event.alert.state === 'raised') {
      alerts.inc({ kind: event.alert.kind, severity: event.alert.severity });
    }
  });
}
