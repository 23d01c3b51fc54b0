import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Daemon } from '../../jobs/daemon/types.js';
import { jobStates } from '../../jobs/types.js';
import { deviceGauges } from './device-gauges.js';
import { jobCounters } from './job-counters.js';

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
export function openMetrics(daemon: Daemon, streams: () => number): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const refreshDevices = deviceGauges(daemon, registry);
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
    text() {
      refreshDevices();
      const counts = daemon.counts();
      for (const state of jobStates) jobs.set({ state }, counts[state]);
      eventStreams.set(streams());
      return registry.metrics();
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
