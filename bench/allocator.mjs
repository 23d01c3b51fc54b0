// How quickly the simulated allocator replays what real jobs asked for, beside the same rules
// written with objects and sorted arrays, turn by turn, in one thread and in that thread's own time.
//
//   npm run build && node bench/allocator.mjs [--rounds 15] [--json]
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { replay } from '../dist/estimate/trace/event-replay.js';
import { EventStreamBuilder, eventKind } from '../dist/estimate/trace/event-stream.js';
import { parseRecordedRun } from '../dist/estimate/trace/recorded-events.js';
import { replaySimply } from './allocator/simple.mjs';
import { median } from './statistics.mjs';
import { threadMilliseconds } from './thread-time.mjs';
import { truthFolder } from './truth.mjs';

const targets = { eventsPerSecond: 3e6, stepMs: 50 };
/** So short a piece of work is timed so often at once. */
const repeats = 50;
const sevenBillion = 'llama-2-7b_train_b4_s512_bf16_sgd.json';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    child: { type: 'boolean', default: false },
  },
});

const folder = join(truthFolder('events'), 'known');
const load = (name) => parseRecordedRun(readFileSync(join(folder, name), 'utf8'));

if (values.child) console.log(timeStepOnce());
else measure(Number(values.rounds));

function measure(rounds) {
  const runs = readdirSync(folder).map(load);
  const events = runs.reduce((sum, { stream }) => sum + stream.length, 0);
  const ours = [];
  const simple = [];
  const inOrder = { addresses: 'falling' };
  for (const { id, stream } of runs) check(id, stream, inOrder);
  for (let round = 0; round < rounds; round += 1) {
    ours.push(time(() => runs.forEach(({ stream }) => replay(stream))));
    simple.push(time(() => runs.forEach(({ stream }) => replaySimply(stream, eventKind))));
  }
  const large = fragmented(20_000);
  const crowded = Array.from({ length: rounds }, () => time(() => replay(large)));
  const step = stepOf(load(sevenBillion));
  const result = {
    rounds,
    files: runs.length,
    events,
    eventsPerSecond: (events / median(ours)) * 1000,
    bestEventsPerSecond: (events / Math.min(...ours)) * 1000,
    simpleEventsPerSecond: (events / median(simple)) * 1000,
    ratio: median(simple) / median(ours),
    crowdedEventsPerSecond: (large.length / median(crowded)) * 1000,
    step: {
      events: step.length,
      warmMs: median(Array.from({ length: rounds }, () => timeOften(() => replay(step)))),
      coldMs: median(Array.from({ length: 9 }, timeStepInNewProcess)),
    },
    targets,
  };
  if (values.json) console.log(JSON.stringify(result, undefined, 2));
  else print(result);
  const slow = result.eventsPerSecond < targets.eventsPerSecond;
  process.exitCode = slow || result.step.coldMs > targets.stepMs ? 1 : 0;
}

/** Both follow the same rules, or the comparison means nothing. */
function check(id, stream, settings) {
  const expected = replaySimply(stream, eventKind);
  const { peakAllocatedBytes, peakReservedBytes } = replay(stream, settings);
  if (
    expected.peakAllocatedBytes !== peakAllocatedBytes ||
    expected.peakReservedBytes !== peakReservedBytes
  ) {
    throw new Error(`${id}: the two implementations do not agree`);
  }
}

function time(work) {
  const begin = threadMilliseconds();
  work();
  return threadMilliseconds() - begin;
}

function timeOften(work) {
  return time(() => Array.from({ length: repeats }).forEach(work)) / repeats;
}

/** The last step of a recorded run, with what was held when it began. */
function stepOf({ stream }) {
  const begin = stream.marks.find(({ name }) => name === 'step 1: end').at;
  const held = new Map();
  for (let at = 0; at < begin; at += 1) {
    if (stream.kind[at] === eventKind.alloc) held.set(stream.slot[at], stream.bytes[at]);
    if (stream.kind[at] === eventKind.free) held.delete(stream.slot[at]);
  }
  const builder = new EventStreamBuilder();
  const slots = new Map();
  for (const [slot, bytes] of held) slots.set(slot, builder.alloc(bytes));
  for (let at = begin; at < stream.length; at += 1) {
    const slot = stream.slot[at];
    if (stream.kind[at] === eventKind.alloc) slots.set(slot, builder.alloc(stream.bytes[at]));
    else if (stream.kind[at] === eventKind.free) builder.free(slots.get(slot));
  }
  return builder.finish();
}

/** Far more free blocks than any real job keeps: every second one of `count`, all of other sizes. */
function fragmented(count) {
  const builder = new EventStreamBuilder();
  const slots = Array.from({ length: count }, (_, i) => builder.alloc(512 * (1 + (i % 1500))));
  for (let i = 0; i < count; i += 2) builder.free(slots[i]);
  for (let i = 0; i < count * 4; i += 1) {
    builder.free(builder.alloc(512 * (1 + ((i * 7919) % 1500))));
  }
  return builder.finish();
}

/** Parsing comes first, so that only the replay itself is cold. */
function timeStepOnce() {
  const step = stepOf(load(sevenBillion));
  return time(() => replay(step));
}

function timeStepInNewProcess() {
  const { stdout, status } = spawnSync(process.execPath, [import.meta.filename, '--child']);
  if (status !== 0) throw new Error(`the measuring process ended with exit code ${status}`);
  return Number(stdout.toString());
}

function print({ step, ...result }) {
  console.log(`${result.events} events of ${result.files} real jobs, ${result.rounds} rounds`);
  row('plimsoll', `${millions(result.eventsPerSecond)} (target: at least 3.00)`);
  row('plimsoll, best round', millions(result.bestEventsPerSecond));
  row('objects and sorted arrays', millions(result.simpleEventsPerSecond));
  row('times as quick', result.ratio.toFixed(2));
  row('with 10000 free blocks', millions(result.crowdedEventsPerSecond));
  console.log(`One step of Llama 2 7B, ${step.events} events`);
  row('in a new process', `${step.coldMs.toFixed(1)} ms (target: below ${targets.stepMs})`);
  row('once warm', `${step.warmMs.toFixed(1)} ms`);
}

function millions(count) {
  return `${(count / 1e6).toFixed(2)} million events/s`;
}

function row(name, value) {
  console.log(`  ${name.padEnd(28)} ${value}`);
}
