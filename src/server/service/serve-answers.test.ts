import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { defaultSettings } from '../../config/settings.js';
import type { Discovery } from '../../device/discover.js';
import { gpt2TraceFile } from '../../estimate/trace/traces-for-tests.js';
import type { ConcurrencyLimit } from '../../jobs/daemon/limit-concurrency.js';
import { GiB } from '../../units/bytes.js';
import { fakeDevice, memory } from '../../watch/fake-device-for-tests.js';
import { type ServeAnswers, serveAnswers } from './serve-answers.js';

let folder: string;
let config: string;
const text = readFileSync(join(root, 'bench/truth/configs/gpt2.json'), 'utf8');
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-answers-'));
  config = join(folder, 'config.json');
  writeFileSync(config, text);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const writeTrace = `gunzip -c '${fileURLToPath(gpt2TraceFile)}' > "$output"`;
const { signal: never } = new AbortController();

/** Answers with a program in Python's place that notes each of its starts. */
function answering(script = writeTrace) {
  const python = join(folder, 'python');
  writeFileSync(
    python,
    // A tracer that stays cannot be had of it, so that each trace is a start.
    `#!/bin/sh\nfor output; do :; done\n[ "$output" = --warm ] && exit 1\necho started >> '${folder}/starts'\n${script}\n`,
  );
  chmodSync(python, 0o755);
  const devices = [
    fakeDevice({ name: 'NVIDIA H200', read: () => memory(0, 141 * GiB) }),
    fakeDevice({ id: 'gpu:1', name: 'Tesla T4', read: () => memory(0, 15 * GiB) }),
  ];
  const discovery: Discovery = {
    devices,
    notes: [],
    rescan: () => Promise.resolve({ appeared: [], vanished: [] }),
    close() {},
  };
  const environment = { PATH: process.env['PATH'] };
  const place = { environment, folder, home: join(folder, 'home'), version: '1' };
  const make = () => serveAnswers(defaultSettings, discovery, place, python);
  return { answers: make(), make, devices };
}

function starts(): number {
  const file = join(folder, 'starts');
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0;
}

const workload = () => ({ model: config, batch: 1, seq: 64, precision: 'bf16' });
const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
};

describe('estimates of a server', () => {
  it('trace the same workload once, at the same time and later, and answer as one made anew', async () => {
    const { answers, make } = answering();
    const all = await Promise.all(
      Array.from({ length: 4 }, () => answers.estimate(workload(), never)),
    );
    expect(starts()).toBe(1);
    // Said in other words it is the same.
    const again = { ...workload(), mode: 'train', optimizer: 'adamw', checkpointing: false };
    const later = await answers.estimate(again, never);
    expect(starts()).toBe(1);
    const anew = await make().estimate(workload(), never);
    expect(starts()).toBe(2);
    for (const one of [...all, later]) expect(one).toEqual(anew);
    expect(anew).toMatchObject({ method: 'trace' });
    expect(anew.notes[0]).toBe('This is for gpu:0, which was found here.');
  });

  it('are made anew for a config.json that changed, another workload, and another card', async () => {
    const { answers, devices } = answering();
    await answers.estimate(workload(), never);
    writeFileSync(config, text.replace(/"n_layer": *12/, '"n_layer": 24'));
    expect(readFileSync(config, 'utf8')).not.toBe(text);
    await answers.estimate(workload(), never);
    expect(starts()).toBe(2);
    await answers.estimate({ ...workload(), batch: 2 }, never);
    expect(starts()).toBe(3);
    devices.shift();
    const { notes } = await answers.estimate(workload(), never);
    expect(starts()).toBe(4);
    expect(notes[0]).toBe('This is for gpu:1, which was found here.');
    await answers.estimate(workload(), never);
    expect(starts()).toBe(4);
  });

  it('trace a script each time, also at the same moment', async () => {
    const { answers } = answering();
    const script = join(folder, 'job.py');
    writeFileSync(script, '');
    await Promise.all([answers.estimate({ script }, never), answers.estimate({ script }, never)]);
    await answers.estimate({ script }, never);
    expect(starts()).toBe(3);
  });

  it('are traced as soon as that can be done', async () => {
    const { answers } = answering(`[ -e '${folder}/installed' ] || exit 1\n${writeTrace}`);
    expect((await answers.estimate(workload(), never)).method).toBe('formula');
    writeFileSync(join(folder, 'installed'), '');
    expect((await answers.estimate(workload(), never)).method).toBe('trace');
    expect(starts()).toBe(2);
  });

  it('go on when one of those who wait goes away, and end with the last', async () => {
    const { answers } = answering(
      `while [ ! -e '${folder}/go' ]; do sleep 0.02; done\n${writeTrace}`,
    );
    const first = new AbortController();
    const gone = answers.estimate(workload(), first.signal);
    const stays = answers.estimate(workload(), never);
    await until(() => starts() === 1);
    first.abort();
    await expect(gone).rejects.toMatchObject({ kind: 'interrupted' });
    writeFileSync(join(folder, 'go'), '');
    expect((await stays).method).toBe('trace');
    expect(starts()).toBe(1);
    rmSync(join(folder, 'go'));
    const last = new AbortController();
    const alone = answers.estimate({ ...workload(), batch: 2 }, last.signal);
    await until(() => starts() === 2);
    last.abort();
    await expect(alone).rejects.toMatchObject({ kind: 'interrupted' });
  });

  it('wait for a turn only where something must be made', async () => {
    const { answers } = answering();
    let turns = 0;
    const withLimit: ConcurrencyLimit = (work) => {
      turns += 1;
      return work();
    };
    const ask = (batch: number) =>
      answers.estimate({ ...workload(), batch }, never, 'request', withLimit);
    await Promise.all([ask(1), ask(1), ask(1), ask(2)]);
    await ask(1);
    expect(turns).toBe(2);
  });
});

describe('plans of a server', () => {
  it('are made once for the same budget', async () => {
    const { answers, make } = answering();
    const asked = { ...workload(), memoryBytes: 8 * GiB };
    const [first, second] = await Promise.all([
      answers.plan(asked, never),
      answers.plan(asked, never),
    ]);
    const traces = starts();
    expect(traces).toBeGreaterThan(0);
    expect(second).toEqual(first);
    expect(await answers.plan(asked, never)).toEqual(first);
    expect(starts()).toBe(traces);
    await answers.planWithin(workload(), { capacityBytes: 4 * GiB, mayChange: [] }, never);
    expect(starts()).toBeGreaterThan(traces);
    expect(await make().plan(asked, never)).toEqual(first);
  });

  it('traces a program once, for the next server, too, and again with other arguments', async () => {
    const files = { read: [], looked: [], listed: [], modules: [] };
    const trace = [
      '{"plimsoll":"trace","version":1,"torch":"2.11.0","workload":{"program":["train.py"]}}',
      '["s",0,""]',
      '["m","phase:building"]',
      '["a",1,104857600,0,0,"w"]',
      JSON.stringify({ end: true, parameters: 1, parameterBytes: 4, notes: [], files }),
    ].join('\n');
    const find = 'for word; do [ "$last" = --output ] && output=$word; last=$word; done';
    const state = `[ "$last" = --state ] && { echo '{"state":"1"}'; exit; }`;
    const noted = `echo traced >> '${folder}/traces'`;
    const { answers, make } = answering(
      `${find}\n${state}\n${noted}\ncat > "$output" <<'END'\n${trace}\nEND`,
    );
    const traces = () => readFileSync(join(folder, 'traces'), 'utf8').trim().split('\n').length;
    const ask = (server: ServeAnswers, ...words: string[]) =>
      server.program(
        {
          command: [join(folder, 'python'), 'train.py', ...words],
          folder,
          environment: { PATH: process.env['PATH'] },
          timeoutSeconds: 600,
        },
        never,
      );
    const first = await ask(answers);
    expect(first.peak.reservedBytes).toBe(104857600);
    expect(await ask(make())).toEqual(first);
    expect(traces()).toBe(1);
    await ask(answers, '--epochs', '2');
    expect(traces()).toBe(2);
  });
});
