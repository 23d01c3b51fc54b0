import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attemptForTests } from '../../jobs/store/attempt-for-tests.js';
import type { Alert } from '../../watch/types.js';
import { createFakeDaemon } from '../fake-daemon-for-tests.js';
import { deviceExample } from '../routes/examples.js';
import { jobFamilies, metricText } from './families.js';
import { openMetrics } from './metrics.js';

const node = { name: 'n1', version: '1.2.3' };

async function figures(text: Promise<string>): Promise<Record<string, number>> {
  const lines = (await text).split('\n').filter((line) => line.startsWith('plimsoll_'));
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice('plimsoll_'.length, at), Number(line.slice(at + 1))];
    }),
  );
}

const alert: Alert = {
  kind: 'gpu-warning',
  state: 'raised',
  severity: 'warning',
  deviceId: 'gpu:0',
  atSeconds: 1,
  epochMs: 1,
  message: 'Full.',
  recommendations: [],
  provenance: 'measured',
};

describe('metrics', () => {
  it('show devices and their jobs as they are when asked', async () => {
    const daemon = createFakeDaemon();
    const metrics = openMetrics(daemon, () => 7, node);
    const labels = '{device="gpu:0",name="NVIDIA H100 80GB HBM3",provenance="measured"}';
    const gib = 1024 ** 3;
    expect(await figures(metrics.text())).toMatchObject({
      [`device_total_bytes${labels}`]: 80 * gib,
      [`device_used_bytes${labels}`]: 5 * gib,
      [`device_load_line_bytes${labels}`]: 72 * gib,
      [`device_reserved_bytes${labels}`]: 6 * gib,
      [`device_other_processes_bytes${labels}`]: 0,
      [`device_releasing_bytes${labels}`]: 0,
      [`device_available_bytes${labels}`]: 66 * gib,
      [`device_risk${labels}`]: 0,
      'job_reserved_bytes{job_id="1",name="resnet on cifar",device="gpu:0"}': 6 * gib,
      'job_used_bytes{job_id="1",name="resnet on cifar",device="gpu:0"}': 5 * gib,
      event_streams: 7,
      'node_info{node="n1",version="1.2.3"}': 1,
      [`device_present${labels}`]: 1,
    });
    const full = { ...deviceExample.forecast, risk: 'critical', etaSeconds: 12 } as const;
    daemon.setDevices([{ ...deviceExample, forecast: full, reservations: [] }]);
    const later = await figures(metrics.text());
    expect(later[`device_out_of_memory_seconds${labels}`]).toBe(12);
    expect(later[`device_risk${labels}`]).toBe(4);
    expect(Object.keys(later).filter((name) => name.startsWith('job_used'))).toEqual([]);
  });

  it('show a job on each of its devices, under a label that Prometheus leaves alone', async () => {
    const daemon = createFakeDaemon();
    const [held] = deviceExample.reservations;
    if (held === undefined) throw new Error('the example holds no job');
    const on = (id: string, part: Partial<typeof held>) => ({
      ...deviceExample,
      id,
      reservations: [{ ...held, jobId: '7', name: 'train', ...part }],
    });
    daemon.setDevices([
      on('gpu:0', { bytes: 5, usedBytes: 3 }),
      on('gpu:1', { bytes: 5, usedBytes: 'unknown' }),
      on('gpu:2', { bytes: 5, usedBytes: 0, isReleasing: true }),
    ]);
    const seen = Object.entries(await figures(openMetrics(daemon, () => 0, node).text()));
    expect(seen.filter(([name]) => /^job_(reserved|used)_/.test(name))).toEqual([
      ['job_reserved_bytes{job_id="7",name="train",device="gpu:0"}', 5],
      ['job_reserved_bytes{job_id="7",name="train",device="gpu:1"}', 5],
      ['job_used_bytes{job_id="7",name="train",device="gpu:0"}', 3],
    ]);
  });

  it('begin at 0, so that the first of each is seen to be one more', async () => {
    const seen = await figures(openMetrics(createFakeDaemon(), () => 0, node).text());
    const begun = Object.entries(seen).filter(([name]) => /_total(\{|$)/.test(name));
    expect(new Set(begun.map(([, value]) => value))).toEqual(new Set([0]));
    expect(begun.map(([name]) => name)).toEqual([
      'jobs_submitted_total',
      'jobs_ended_total{state="succeeded"}',
      'jobs_ended_total{state="failed"}',
      'jobs_ended_total{state="cancelled"}',
      'jobs_ended_total{state="refused"}',
      'jobs_ended_total{state="expired"}',
      'attempts_total{out_of_memory="true"}',
      'attempts_total{out_of_memory="false"}',
      'buffer_requests_total{result="hit"}',
      'buffer_requests_total{result="miss"}',
      'buffer_evictions_total',
      'buffer_bytes_total{as="raw"}',
      'buffer_bytes_total{as="held"}',
      'alerts_total{kind="memory-warning",severity="warning"}',
      'alerts_total{kind="memory-critical",severity="critical"}',
      'alerts_total{kind="gpu-warning",severity="warning"}',
      'alerts_total{kind="gpu-critical",severity="critical"}',
      'alerts_total{kind="leak",severity="warning"}',
      'alerts_total{kind="out-of-memory-risk",severity="warning"}',
      'alerts_total{kind="out-of-memory-risk",severity="critical"}',
    ]);
  });

  it('hold any name in its label', () => {
    const job = { jobId: '1', device: 'gpu:0', reservedBytes: 'unknown', usedBytes: 5 } as const;
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), (name) => {
        const text = metricText(jobFamilies([{ ...job, name }]));
        const lines = text.split(/\r\n|[\n\r\v\f\u0085]/);
        const ofJob = lines.filter((line) => line.startsWith('plimsoll_job_used_bytes'));
        expect(ofJob).toHaveLength(1);
        expect(ofJob[0]).toMatch(
          /^plimsoll_job_used_bytes\{job_id="1",name="(?:[^"\\]|\\[\\"])*",device="gpu:0"\} 5$/,
        );
      }),
    );
  });

  it('leave out what is not known, instead of a made-up 0', async () => {
    const daemon = createFakeDaemon();
    const unknown = 'unknown' as const;
    const { forecast: known } = deviceExample;
    const forecast = { ...known, risk: unknown, etaSeconds: unknown, bytesPerSecond: unknown };
    daemon.setDevices([
      { ...deviceExample, usedBytes: unknown, otherProcessesBytes: unknown, forecast },
    ]);
    const names = Object.keys(await figures(openMetrics(daemon, () => 0, node).text()));
    const device = names.filter((name) => /^device_(?!present)/.test(name));
    expect(device.map((name) => name.split('{')[0])).toEqual([
      'device_total_bytes',
      'device_load_line_bytes',
      'device_reserved_bytes',
      'device_releasing_bytes',
      'device_available_bytes',
    ]);
  });

  it('count what happens to jobs, each thing once', async () => {
    const daemon = createFakeDaemon();
    await daemon.submit({ command: ['before'] });
    const metrics = openMetrics(daemon, () => 0, node);
    const { id } = await daemon.submit({ command: ['train'] });
    const startedAt = '2026-01-01T00:00:07.000Z';
    const reservation = { devices: ['gpu:0'], bytes: 1000, basis: 'stated' } as const;
    daemon.change(id, { state: 'running', startedAt, reservation });
    daemon.change(id, { reason: 'a note' });
    const outOfMemory = {
      kind: 'cuda',
      askedBytes: 5,
      freeBytes: 1,
      totalBytes: 9,
      message: 'CUDA out of memory',
    };
    const first = attemptForTests({ outOfMemory, peakBytes: 900 });
    daemon.change(id, { attempts: [first] });
    const buffers = {
      items: 3,
      hits: 9,
      misses: 1,
      evictions: 2,
      memoryBytes: 60,
      fileBytes: 40,
      rawBytes: 250,
      hitRate: 0.9,
      compressionRatio: 2.5,
    };
    const second = attemptForTests({ number: 2, peakBytes: 800, buffers });
    daemon.change(id, { attempts: [first, second] });
    daemon.change(id, { state: 'succeeded' });
    daemon.change(id, { reason: 'told again' });
    await daemon.cancel('1');
    daemon.publish({ type: 'alert', alert });
    daemon.publish({ type: 'alert', alert: { ...alert, state: 'cleared' } });
    expect(await figures(metrics.text())).toMatchObject({
      jobs_submitted_total: 1,
      'jobs_ended_total{state="succeeded"}': 1,
      'jobs_ended_total{state="cancelled"}': 1,
      'attempts_total{out_of_memory="true"}': 1,
      'attempts_total{out_of_memory="false"}': 1,
      'buffer_requests_total{result="hit"}': 9,
      'buffer_requests_total{result="miss"}': 1,
      buffer_evictions_total: 2,
      'buffer_bytes_total{as="raw"}': 250,
      'buffer_bytes_total{as="held"}': 100,
      job_waiting_seconds_count: 1,
      job_waiting_seconds_sum: 5,
      estimate_error_ratio_count: 1,
      estimate_error_ratio_sum: 0.9,
      'alerts_total{kind="gpu-warning",severity="warning"}': 1,
      'jobs{state="succeeded"}': 1,
      'jobs{state="cancelled"}': 1,
      'jobs{state="waiting"}': 0,
    });
  });

  it('do not count again what ran before the server was there', async () => {
    const daemon = createFakeDaemon();
    const { id } = await daemon.submit({ command: ['train'] });
    const startedAt = '2026-01-01T00:00:07.000Z';
    const attempt = attemptForTests();
    daemon.change(id, { state: 'running', startedAt, attempts: [attempt] });
    const metrics = openMetrics(daemon, () => 0, node);
    daemon.change(id, { reason: 'a note' });
    const seen = await figures(metrics.text());
    expect(seen['job_waiting_seconds_count']).toBe(0);
    expect(seen['attempts_total{out_of_memory="false"}']).toBe(0);
    expect(seen['jobs_submitted_total']).toBe(0);
  });

  it('keep two servers apart, and the methods of strangers out', async () => {
    const [one, other] = [createFakeDaemon(), createFakeDaemon()].map((daemon) =>
      openMetrics(daemon, () => 0, node),
    );
    one?.countRequest({ method: 'GET', route: '/jobs', status: 200 });
    one?.countRequest({ method: 'BREW', route: '/jobs', status: 405 });
    const seen = await figures(one?.text() ?? Promise.resolve(''));
    expect(seen['http_requests_total{method="GET",route="/jobs",status="200"}']).toBe(1);
    expect(seen['http_requests_total{method="other",route="/jobs",status="405"}']).toBe(1);
    const elsewhere = await figures(other?.text() ?? Promise.resolve(''));
    expect(Object.keys(elsewhere).filter((name) => name.startsWith('http_'))).toEqual([]);
  });

  it('say how the process itself does', async () => {
    expect(await openMetrics(createFakeDaemon(), () => 0, node).text()).toContain(
      'process_resident_memory_bytes',
    );
  });
});
