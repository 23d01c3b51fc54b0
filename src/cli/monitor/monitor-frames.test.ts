import { stripVTControlCharacters } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeAlert, fakeState, startEpochMs } from '../../report/state-for-tests.js';
import { themeNames } from '../../report/text/spans.js';
import { textWidth } from '../../report/text/text-width.js';
import { GiB } from '../../units/bytes.js';
import { keyBindings } from './keys.js';
import { fakeRow } from './row-for-tests.js';
import { renderScreen, type ScreenModel, type ScreenSize } from './screen.js';
import { sortColumns } from './sort-rows.js';
import { type MonitorView, monitorLayouts, newView } from './view.js';

/** Eight GPUs that are not there, each with a history, and the host. */
const gpus = Array.from({ length: 8 }, (_, index) =>
  fakeState({
    info: {
      id: `gpu:${index}`,
      name: 'simulated GPU',
      source: 'simulated',
      provenance: 'simulated',
    },
    used: Array.from({ length: 60 }, (__, second) => ((index + second / 8) % 80) * GiB),
    compute: Array.from({ length: 60 }, () => 80),
  }),
);
const host = fakeState({ info: { id: 'host', kind: 'host', name: 'RAM', source: 'host' } });
const rows = Array.from({ length: 300 }, (_, index) =>
  fakeRow({
    pid: 20_000 + index,
    deviceId: `gpu:${index % 8}`,
    user: index % 2 === 0 ? 'ada' : 'grace',
    job: index % 5 === 0 ? 'run-20261116-0800' : 'none',
    command: `python train.py --seed ${index} --config configs/large/pretraining-of-${index}.yaml`,
  }),
);
const leak =
  'python (process 4711) on gpu:3 (NVIDIA H100 80GB HBM3, simulated) leaks 110 MiB a second, 2.3 GiB so far.';

function model(parts: Partial<ScreenModel> = {}): ScreenModel {
  return {
    states: [...gpus, host],
    alerts: [],
    events: [],
    rows,
    noRows: 'No process holds memory here.',
    view: newView('terminal'),
    nowSeconds: 60,
    epochMs: startEpochMs,
    hostname: 'ship-07',
    intervalSeconds: 1,
    loadLinePercent: 90,
    version: '1.2.3',
    ...parts,
  };
}

function frame(
  size: ScreenSize,
  parts: Partial<ScreenModel> = {},
  view: Partial<MonitorView> = {},
) {
  const given = model(parts);
  return renderScreen({ ...given, view: { ...given.view, ...view } }, size, {
    colour: false,
    unicode: true,
  });
}

const sizes = [
  { columns: 60, rows: 20 },
  { columns: 80, rows: 24 },
  { columns: 200, rows: 50 },
  { columns: 300, rows: 100 },
];

it('stands nine devices in threes where four would fit side by side', () => {
  const { hits } = frame({ columns: 300, rows: 100 });
  const tops = hits.devices.map(({ top }) => top);
  const inLine = (line: number) => tops.filter((top) => top === tops[line * 3]).length;
  expect([inLine(0), inLine(1), inLine(2), new Set(tops).size]).toEqual([3, 3, 3, 3]);
});

describe.each(sizes)('the monitor at $columns x $rows', (size) => {
  it('fills the screen: all devices, processes with user and command, the keys', () => {
    const { lines, hits } = frame(size);
    const text = lines.join('\n');
    expect(lines).toHaveLength(size.rows);
    for (let gpu = 0; gpu < 8; gpu++) expect(text).toContain(`gpu:${gpu}`);
    expect(text).toContain('host');
    expect(text).toMatch(/20000 ada +gpu:0 +5\.0 GiB .*python train\.py/);
    expect(lines.at(-1)).toContain('q leave');
    // Every line but the gaps between parts has something on it.
    expect(lines.filter((line) => line.trim() === '').length).toBeLessThanOrEqual(size.rows / 4);
    expect(hits.tableRows).toBeGreaterThanOrEqual(5);
  });

  it('tells an alert to its end', () => {
    const { lines } = frame(size, { alerts: [fakeAlert({ atSeconds: 50, message: leak })] });
    const text = lines.map((line) => line.trim()).join(' ');
    expect(text.replaceAll(/ +/g, ' ')).toContain('leaks 110 MiB a second, 2.3 GiB so far.');
  });

  it('tells the newest alert that holds before those that were cleared, and counts the others', () => {
    const alerts = [
      fakeAlert({ atSeconds: 40, deviceId: 'gpu:3', message: leak }),
      ...Array.from({ length: 30 }, (_, index) =>
        fakeAlert({ atSeconds: 41, state: 'cleared', deviceId: `x:${index}`, message: 'gone' }),
      ),
    ];
    expect(frame(size, { alerts }).lines.join(' ').replaceAll(/\s+/g, ' ')).toContain(
      '2.3 GiB so far.',
    );
    const many = Array.from({ length: 40 }, (_, index) =>
      fakeAlert({ atSeconds: 40, deviceId: `gpu:${index}`, message: leak }),
    );
    expect(frame(size, { alerts: many }).lines.join('\n')).toMatch(/and \d+ more alerts: press a/);
  });

  it('tells a critical alert before newer ones that are only warnings', () => {
    const critical = { severity: 'critical', deviceId: 'gpu:3', message: leak } as const;
    const alerts = [
      fakeAlert({ atSeconds: 10, ...critical }),
      ...Array.from({ length: 20 }, (_, index) =>
        fakeAlert({
          atSeconds: 50,
          deviceId: `gpu:${index}`,
          message: 'is 76 % full.',
          kind: 'leak',
        }),
      ),
    ];
    const text = frame(size, { alerts }).lines.join(' ').replaceAll(/\s+/g, ' ');
    expect(text).toContain('leaks 110 MiB a second, 2.3 GiB so far.');
  });

  it('shows the selected process, and where a click would find it', () => {
    const row = rows[250];
    const { lines, hits } = frame(size, {}, { selected: row?.key });
    const at = lines.findIndex((line) => line.startsWith('>'));
    expect(lines[at]).toContain('20250');
    expect(hits.first + at - hits.titleRow - 1).toBe(250);
    const memory = hits.titles.find(({ column }) => column === 'memory');
    expect(lines[hits.titleRow]?.slice(memory?.from, memory?.to)).toContain('MEMORY');
  });

  it('asks before a signal so that the question can be read', () => {
    const target = { pid: 4711, started: 1, user: 'ada', command: 'python train.py' };
    const prompt = { kind: 'confirm', signal: 'SIGKILL', targets: [target] } as const;
    const text = frame(size, {}, { prompt }).lines.join(' ').replaceAll(/\s+/g, ' ');
    expect(text).toContain('Kill (SIGKILL) 4711 of ada? y = yes, any other key = no');
  });

  it('has a page of help with every key, which scrolls where it is too long', () => {
    const seen = new Set<string>();
    for (let pageFirst = 0; pageFirst < 80; pageFirst += 5) {
      for (const line of frame(size, {}, { page: 'help', pageFirst }).lines) seen.add(line);
    }
    const text = [...seen].join('\n');
    for (const { shown } of keyBindings) expect(text).toContain(shown);
  });
});

describe('graphs', () => {
  it('are drawn for each GPU where there is room, of memory and of compute', () => {
    const text = frame({ columns: 300, rows: 100 }).lines.join('\n');
    expect(text.split('memory, last 1 min')).toHaveLength(10);
    expect(text.split('busy, last 1 min').length).toBeGreaterThan(8);
  });

  it('give way to processes, or the other way round, as asked', () => {
    const size = { columns: 200, rows: 50 };
    const shown = monitorLayouts.map((layout) => frame(size, {}, { layout }).hits.tableRows);
    const [auto = 0, devices = 0, processes = 0] = shown;
    expect(devices).toBeLessThan(auto);
    expect(processes).toBeGreaterThan(auto);
  });
});

describe('the page of a process', () => {
  it('tells all about it and draws its memory', () => {
    const row = fakeRow({ container: 'docker 3f2a9c1b7d04', growth: 5_000_000 });
    const text = frame(
      { columns: 100, rows: 30 },
      { rows: [row] },
      { page: 'details', selected: row.key },
    ).lines.join('\n');
    expect(text).toContain('docker 3f2a9c1b7d04');
    expect(text).toContain('plimsoll leak --check --pid 4242');
    expect(text).toMatch(/running for +1 h 2 min/);
    expect(text).toContain('highest 3.0 GiB (measured)');
    expect(text).toContain('█');
  });

  it('says that the process has ended', () => {
    const lines = frame({ columns: 80, rows: 24 }, {}, { page: 'details', selected: 'x' }).lines;
    expect(lines.join('\n')).toContain('The process has ended.');
  });
});

describe('any frame', () => {
  it('fits its terminal and lets no name move the cursor', () => {
    const text = fc.string({ unit: 'binary', maxLength: 60 });
    const bytes = fc.oneof(fc.constantFrom('unknown' as const, 'none' as const), fc.nat());
    const row = fc.record({
      pid: fc.nat(),
      user: text,
      command: text,
      job: text,
      deviceId: text,
      usedBytes: bytes,
      growth: bytes,
      trail: fc.array(fc.oneof(fc.nat(), fc.constant(Number.NaN)), { maxLength: 8 }),
      branch: fc.constantFrom('', '├─ ', '│  └─ '),
    });
    const prompt = fc.constantFrom<MonitorView['prompt'][]>(
      undefined,
      { kind: 'sort' },
      { kind: 'filter', before: '' },
      {
        kind: 'confirm',
        signal: 'SIGTERM',
        targets: [{ pid: 1, started: 1, user: 'a\u001B[2J', command: 'b\n' }],
      },
    );
    fc.assert(
      fc.property(
        fc.record({
          columns: fc.integer({ min: 1, max: 320 }),
          rows: fc.integer({ min: 1, max: 110 }),
        }),
        fc.array(row, { maxLength: 30 }),
        fc.record({
          page: fc.constantFrom('main' as const, 'help', 'alerts', 'details'),
          prompt,
          filter: text,
          message: text,
          sort: fc.constantFrom(...sortColumns),
          theme: fc.constantFrom(...themeNames),
          layout: fc.constantFrom(...monitorLayouts),
          pageFirst: fc.nat(200),
          first: fc.nat(50),
          commandFrom: fc.nat(100),
        }),
        fc.record({ colour: fc.boolean(), unicode: fc.boolean() }),
        (size, recipes, parts, style) => {
          const made = recipes.map((recipe) => fakeRow(recipe));
          const view = { ...newView('terminal'), ...parts, selected: made[0]?.key };
          const { lines } = renderScreen(model({ rows: made, view }), size, style);
          expect(lines.length).toBeLessThanOrEqual(size.rows);
          for (const line of lines) {
            const bare = stripVTControlCharacters(line);
            expect(bare).not.toMatch(/\p{Cc}/u);
            expect(textWidth(bare)).toBeLessThanOrEqual(size.columns);
            expect(bare).not.toMatch(/NaN|undefined/);
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});
