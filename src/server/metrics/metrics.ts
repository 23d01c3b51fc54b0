import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Daemon, DeviceView } from '../../jobs/daemon/types.js';
import { jobStates } from '../../jobs/types.js';
import { deviceFamilies } from './device-families.js';
import { jobCounters } from './job-counters.js';
import { type JobFigures, jobFamilies } from './job-families.js';
import { metricText } from './metric-text.js';
import { nodeFamily } from './node-family.js';

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
