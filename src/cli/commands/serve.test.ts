import { describe, expect, it } from 'vitest';
import type { DeviceView } from '../../jobs/daemon/types.js';
import { serveText } from '../../report/text/serve-text.js';
import { GiB } from '../../units/bytes.js';
import { accessNotes } from './serve.js';

it.each([
  [{ hasToken: true, uid: 1000 }, []],
  [
    { hasToken: false, uid: 1000 },
    ['no token: every user of this machine can run commands as you'],
  ],
  [{ hasToken: true, uid: 0 }, ['it runs as root, and so do the jobs of its owner']],
  [
    { hasToken: true, uid: 0, localUsers: true },
    [
      'it runs as root, and so do the jobs of its owner',
      'every account of this machine can run jobs here, as itself',
    ],
  ],
  [
    { hasToken: true, uid: 1000, localUsers: true },
    ['accounts that were added with "plimsoll users add" can run commands as you'],
  ],
])('a server says what follows from %j', (started, notes) => {
  expect(accessNotes(started)).toEqual(notes);
});

function device(id: string, takesJobs: boolean): DeviceView {
  return {
    id,
    name: 'a device',
    source: 'host',
    provenance: 'measured',
    totalBytes: 100 * GiB,
    usedBytes: 0,
    freeBytes: 100 * GiB,
    processes: [],
    loadLineBytes: 90 * GiB,
    otherProcessesBytes: 0,
    reservedBytes: 0,
    releasingBytes: 0,
    availableBytes: 90 * GiB,
    reservations: [],
    forecast: {
      risk: 'none',
      probability: { within15s: 0, within60s: 0, within5min: 0.01 },
      etaSeconds: 'never',
      lowSeconds: 'never',
      highSeconds: 'never',
      confidence: 1,
      bytesPerSecond: 0,
      reason: '',
      recommendations: [],
      provenance: 'estimated',
    },
    alerts: [],
    takesJobs,
  };
}

function linesFor(...devices: readonly DeviceView[]): readonly string[] {
  const facts = {
    url: 'http://127.0.0.1:8000',
    home: '/home',
    link: '',
    hasPage: false,
    counts: {},
    notes: [],
  };
  const text = serveText(
    { ...facts, devices },
    { columns: 100, style: { colour: false, unicode: true } },
  );
  return text.split('\n').slice(1, 1 + devices.length);
}

describe('serveText', () => {
  it('says which jobs each device takes', () => {
    expect(linesFor(device('gpu:0', true), device('gpu:1', false), device('host', true))).toEqual([
      'gpu:0      a device, 100.0 GiB, load line at 90.0 GiB',
      'gpu:1      a device, 100.0 GiB, takes no jobs',
      'host       a device, 100.0 GiB, load line at 90.0 GiB, for jobs with --gpus 0',
    ]);
    expect(linesFor(device('gpu:0', false), device('host', true))[1]).toBe(
      'host       a device, 100.0 GiB, load line at 90.0 GiB',
    );
  });
});
