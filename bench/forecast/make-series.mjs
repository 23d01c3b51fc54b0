// Makes series of memory over time from steps of real training programs, as the tracer of the estimate saw them:
// each allocation and free of a step goes through the simulated allocator, and what is wrong on purpose beside it.
//
//   node bench/forecast/make-series.mjs FOLDER [--each 130] [--seed 1]
//
// `--each`: series of each program. bench/truth/steps.json.xz holds the steps; bench/gpu/trace_steps.py traces them.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createAllocator } from '../../dist/estimate/allocator/caching-allocator.js';
import { randomNumbers } from '../../dist/estimate/trace/unsure-kernels.js';
import { tableText, truthPlace, unpackXz } from '../truth.mjs';

const MiB = 2 ** 20;
/** Figures are stored in this unit; a segment of the allocator is a multiple of it. */
export const unitBytes = 2 ** 16;

/** One series: a program that works step by step on a simulated allocator, and is read now and then. */
class Work {
  constructor(program, seed) {
    const draw = randomNumbers(seed);
    this.draw = draw;
    this.program = program;
    this.allocator = createAllocator({ addresses: 'rising' });
    this.interval = this.pick([0.1, 0.1, 0.1, 0.2, 0.5, 1, 2, 5]);
    this.seconds = this.interval * Math.round(this.between(220, 520));
    this.stepSeconds = Math.max(this.interval, 0.1) * this.spread(0.5, 6);
    this.stepSeconds = Math.max(this.stepSeconds, this.seconds / 320);
    this.noise = this.pick([0.02, 0.1, 0.3]);
    this.now = 0;
    this.step = 0;
    this.due = 0;
    this.allocated = [];
    this.reserved = [];
    this.marks = [];
    this.kept = [];
    this.leak = undefined;
    this.capacity = Number.POSITIVE_INFINITY;
    this.ended = undefined;
    this.live = new Map();
  }

  pick = (list) => list[Math.floor(this.draw() * list.length)];
  between = (low, high) => low + (high - low) * this.draw();
  /** Even in the logarithm. */
  spread = (low, high) => low * (high / low) ** this.draw();
  chance = (share) => this.draw() < share;

  get going() {
    return this.ended === undefined && this.now < this.seconds;
  }

  /** Readings up to a time see the memory as it is now. */
  read(until) {
    const { allocator } = this;
    while (this.due <= until && this.due < this.seconds) {
      this.allocated.push(Math.round(allocator.allocatedBytes / unitBytes));
      this.reserved.push(Math.round(allocator.memory.reservedBytes / unitBytes));
      this.due = this.interval * this.allocated.length;
    }
    this.now = until;
  }

  take(bytes) {
    if (this.ended) return undefined;
    const size = Math.max(512, Math.round(bytes));
    const used = this.allocator.memory.reservedBytes;
    const block = this.allocator.malloc(size);
    if (typeof block !== 'number') return this.#end();
    // The cap counts as the allocator's: it gives back its cache first, as PyTorch does.
    if (this.allocator.memory.reservedBytes > this.capacity) {
      if (this.allocator.memory.reservedBytes > used) {
        this.allocator.emptyCache();
        if (this.allocator.memory.reservedBytes > this.capacity) return this.#end();
      }
    }
    return block;
  }

  #end() {
    this.ended = 'oom';
    return undefined;
  }

  keep(bytes) {
    const block = this.take(bytes);
    if (block !== undefined) this.kept.push(block);
  }

  drop(count = this.kept.length) {
    for (const block of this.kept.splice(0, count)) this.allocator.free(block);
  }

  /** A step of the program at a size that was traced, with its events spread over its time. */
  run({ events }, seconds, mark = 'step') {
    this.marks.push([Math.round(this.now * 1000) / 1000, mark, this.step]);
    const begin = this.now;
    const lasts = seconds * (1 + this.noise * (this.draw() + this.draw() - 1));
    const live = new Map();
    for (let at = 0; at < events.length && this.going; at++) {
      const event = events[at];
      if (typeof event === 'number') {
        const block = live.get(-event);
        if (block !== undefined) this.allocator.free(block);
        live.delete(-event);
      } else {
        const [id, bytes] = event;
        const block = this.take(bytes);
        if (block !== undefined) live.set(id, block);
      }
      const next = begin + (lasts * (at + 1)) / events.length;
      if (this.due <= next) this.read(next);
    }
    if (this.going) this.read(begin + lasts);
    for (const block of live.values()) this.allocator.free(block);
    this.step += 1;
  }

  train(size = this.program.usual, slower = 1) {
    this.run(size, this.stepSeconds * slower);
  }

  wait(seconds) {
    this.read(Math.min(this.seconds, this.now + seconds));
  }

  /** The first steps: weights, optimizer states, and the cap: room for what is drawn. */
  start(roomShare = this.spread(0.15, 4), size = this.program.usual) {
    if (this.chance(0.5)) this.wait(this.spread(1, 8) * this.interval);
    for (const bytes of this.program.built) {
      this.take(bytes);
      if (this.chance(0.05)) this.wait(this.interval);
    }
    this.train();
    if (size !== this.program.usual) this.train(size);
    for (const bytes of this.program.states) this.take(bytes);
    this.train(size);
    const base = this.allocator.memory.reservedBytes;
    this.room = Math.max(64 * MiB, base * roomShare);
    this.capacity = base + this.room;
    /** The part of the time in which it runs full, drawn around the length of the series. */
    this.rate = this.room / (this.seconds * this.spread(0.2, 2.2));
  }

  leaks(bytesPerSecond) {
    this.leak = {
      from: Math.round(this.now * 1000) / 1000,
      bytesPerSecond: Math.round(bytesPerSecond),
    };
  }

  /** Works for so long; `each` after every step. */
  work(seconds, each, size) {
    const end = this.now + seconds;
    while (this.going && this.now < end) {
      this.train(size?.());
      each?.();
    }
  }

  /** Keeps a result of every so many steps, so that it comes to a rate. */
  growth(rate, every = 1, scatter = 0) {
    let owed = 0;
    let last = this.now;
    return () => {
      owed += rate * (this.now - last);
      last = this.now;
      if (this.step % every || owed < 4096) return;
      const bytes = owed * (scatter ? this.between(1 - scatter, 1 + scatter) : 1);
      owed = 0;
      this.keep(bytes);
    };
  }

  /** Keeps what brings the kept bytes to a course. */
  follow(course, piece = 0) {
    let held = 0;
    return () => {
      const want = course(this.now) - held;
      if (want < Math.max(65536, piece)) return;
      this.keep(want);
      held += want;
    };
  }
}

/** What runs: each draws its own size, speed and noise. */
const kinds = {
  steady: (w) => {
    w.start();
    w.work(w.seconds);
  },
  ragged: (w) => {
    w.start(w.spread(1, 6));
    const { lengths } = w.program;
    const bias = w.pick([0.5, 1, 2]);
    w.work(w.seconds, undefined, () => lengths[Math.floor(lengths.length * w.draw() ** bias)]);
  },
  curriculum: (w) => {
    const { lengths } = w.program;
    w.start(w.spread(0.1, 3), lengths[0]);
    const every = Math.ceil(w.between(10, 60));
    const most = w.chance(0.5) ? lengths.length : Math.ceil(w.between(1, lengths.length));
    w.work(w.seconds, undefined, () => lengths[Math.min(most - 1, Math.floor(w.step / every))]);
  },
  'batch-grows': (w) => {
    const { batches } = w.program;
    w.start(w.spread(0.2, 4), batches[0]);
    const every = Math.ceil(w.between(20, 90));
    w.work(
      w.seconds,
      undefined,
      () => batches[Math.min(batches.length - 1, Math.floor(w.step / every))],
    );
  },
  evaluation: (w) => {
    w.start(w.spread(0.6, 4));
    const every = Math.ceil(w.between(12, 60));
    const keeps = w.chance(0.4) ? w.spread(0.005, 0.1) * w.room : 0;
    while (w.going) {
      w.train();
      if (w.step % every) continue;
      for (let k = 0; k < 5 && w.going; k++) {
        w.run(w.pick(w.program.evaluations), w.stepSeconds, 'evaluation');
        if (keeps) w.keep(keeps / 5);
      }
      w.drop();
    }
  },
  leak: (w) => {
    w.start();
    if (w.chance(0.5)) w.work(w.seconds * w.between(0, 0.5));
    w.leaks(w.rate);
    w.work(w.seconds, w.growth(w.rate, w.pick([1, 1, 1, 2, 5, 20]), w.pick([0, 0, 0.5])));
  },
  'slow-leak': (w) => {
    w.start();
    const rate = w.rate * w.spread(0.02, 0.4);
    w.leaks(rate);
    w.work(w.seconds, w.growth(rate, w.pick([1, 1, 3]), w.pick([0, 0.5])));
  },
  'late-leak': (w) => {
    w.start();
    w.work(w.seconds * w.between(0.3, 0.7));
    const rate = w.rate * w.spread(1.5, 5);
    w.leaks(rate);
    w.work(w.seconds, w.growth(rate));
  },
  'leak-ragged': (w) => {
    w.start(w.spread(1, 5));
    const { lengths } = w.program;
    w.leaks(w.rate);
    w.work(w.seconds, w.growth(w.rate), () => lengths[Math.floor(lengths.length * w.draw() ** 2)]);
  },
  'leak-evaluation': (w) => {
    w.start(w.spread(0.6, 4));
    const every = Math.ceil(w.between(15, 50));
    w.leaks(w.rate);
    const grow = w.growth(w.rate);
    while (w.going) {
      w.train();
      grow();
      if (w.step % every === 0)
        w.run(w.pick(w.program.evaluations), 3 * w.stepSeconds, 'evaluation');
    }
  },
  'two-rates': (w) => {
    w.start();
    w.leaks(w.rate);
    w.work(w.seconds * w.between(0.2, 0.5), w.growth(w.rate));
    w.work(w.seconds, w.growth(w.rate * w.spread(0.3, 3)));
  },
  fill: (w) => {
    w.start();
    const full = w.between(0.3, 0.97) * w.room;
    const seconds = w.seconds * w.between(0.1, 0.7);
    const begin = w.now + (w.chance(0.4) ? w.seconds * w.between(0, 0.3) : 0);
    const bend = w.pick([1, 1, 1, 0.5, 0.7, 1.6]);
    const course = (t) => full * Math.min(1, Math.max(0, (t - begin) / seconds)) ** bend;
    w.work(w.seconds, w.follow(course));
  },
  'fill-levels': (w) => {
    w.start();
    const full = w.spread(0.4, 2) * w.room;
    const tau = w.seconds * w.between(0.08, 0.5);
    const begin = w.now;
    w.work(
      w.seconds,
      w.follow((t) => full * (1 - Math.exp((begin - t) / tau))),
    );
  },
  'cache-of-keys': (w) => {
    w.start();
    const keys = Math.ceil(w.spread(30, 600));
    const size = (w.spread(0.3, 1.6) * w.room) / keys;
    const asks = Math.ceil(w.spread(1, 12));
    const seen = new Set();
    const bias = w.pick([1, 1.5, 3]);
    w.work(w.seconds, () => {
      for (let k = 0; k < asks; k++) {
        const key = Math.floor(keys * w.draw() ** bias);
        if (seen.has(key)) continue;
        seen.add(key);
        w.keep(size);
      }
    });
  },
  'cache-cleared': (w) => {
    w.start();
    const rate = w.rate * w.spread(1, 4);
    const every = (w.between(0.2, 0.95) * w.room) / rate;
    const empties = w.chance(0.5);
    let cleared = w.now;
    const grow = w.growth(rate, 1, w.pick([0, 0.4]));
    w.work(w.seconds, () => {
      grow();
      if (w.now - cleared < every) return;
      cleared = w.now;
      w.drop();
      if (empties) w.allocator.emptyCache();
    });
  },
  epochs: (w) => {
    w.start();
    const seconds = w.seconds / w.between(3, 9);
    const stays = w.chance(0.5) ? w.between(0.05, 0.5) : 0;
    const height = w.between(0.25, 0.9) * w.room;
    if (stays) w.leaks((stays * height) / seconds);
    while (w.going) {
      w.marks.push([w.now, 'epoch', w.step]);
      w.work(seconds, w.growth(height / seconds));
      w.drop(Math.round(w.kept.length * (1 - stays)));
      if (w.chance(0.3)) w.allocator.emptyCache();
    }
  },
  accelerates: (w) => {
    w.start();
    const begin = w.now;
    const end = w.seconds * w.spread(0.4, 2);
    const power = w.pick([1.5, 2, 3]);
    const doubling = w.seconds * w.between(0.06, 0.25);
    const course = w.chance(0.5)
      ? (t) => w.room * ((t - begin) / end) ** power
      : (t) => w.room * 2 ** ((t - end) / doubling);
    w.work(w.seconds, w.follow(course));
  },
  stairs: (w) => {
    w.start();
    const every = Math.ceil(w.between(8, 60));
    const size = w.rate * every * w.stepSeconds * w.spread(0.6, 1.6);
    const most = w.chance(0.4) ? Math.ceil(w.between(2, 7)) : 1e9;
    const rolls = w.chance(0.5);
    w.work(w.seconds, () => {
      if (w.step % every) return;
      if (w.kept.length >= most && !rolls) return;
      w.keep(size);
      if (w.kept.length > most) w.drop(1);
    });
  },
  'stairs-accelerate': (w) => {
    w.start();
    const every = Math.ceil(w.between(8, 40));
    const count = Math.ceil(w.between(5, 25));
    const ratio = w.spread(1.05, 1.35);
    let size = (w.room * (ratio - 1)) / (ratio ** count - 1);
    const most = w.chance(0.4) ? Math.ceil(count * w.between(0.3, 0.9)) : 1e9;
    w.work(w.seconds, () => {
      if (w.step % every || w.kept.length >= most) return;
      w.keep(size);
      size *= ratio;
    });
  },
  'cache-doubles': (w) => {
    w.start(w.spread(0.5, 6));
    let size = w.room * w.between(0.01, 0.03);
    let rows = 0;
    w.keep(size);
    const rate = w.rate * w.spread(0.3, 1);
    w.work(w.seconds, () => {
      rows += rate * w.stepSeconds;
      if (rows < size) return;
      size *= 2;
      w.keep(size);
      w.drop(1);
    });
  },
  queue: (w) => {
    w.start();
    const depth = Math.ceil(w.between(6, 60));
    const size = (w.between(0.2, 0.95) * w.room) / depth;
    const ahead = w.between(0.1, 1);
    w.work(w.seconds, () => {
      if (w.chance(ahead)) w.keep(size);
      if (w.kept.length > depth || (w.kept.length > 1 && w.chance(0.05))) w.drop(1);
    });
  },
  load: (w) => {
    const pieces = Math.ceil(w.between(30, 200));
    const gib = w.spread(200, 4000) * MiB;
    const seconds = w.seconds * w.between(0.08, 0.6);
    const uneven = w.pick([0, 0.5, 1.5]);
    for (let k = 0; k < pieces; k++) {
      w.keep(gib / pieces);
      if (k === 0) w.capacity = gib / w.between(0.4, 0.98);
      w.wait((seconds / pieces) * Math.max(0.05, 1 + uneven * (w.draw() - 0.5) * 2));
    }
    const sizes = w.program.evaluations;
    const size = sizes[0];
    w.capacity = Math.max(w.capacity, w.allocator.memory.reservedBytes * 1.02 + 3 * size.peak);
    w.work(w.seconds, undefined, () => size);
  },
  sudden: (w) => {
    w.start(w.spread(0.2, 1));
    w.work(w.seconds * w.between(0.3, 0.9));
    w.take(w.capacity);
    w.work(w.seconds);
  },
  conversation: (w) => {
    w.start();
    const rate = w.rate * w.spread(0.5, 2);
    let length = 0;
    let ends = w.chance(0.6) ? w.between(0.15, 0.45) * w.room : Number.POSITIVE_INFINITY;
    const size = w.program.evaluations[0];
    w.work(
      w.seconds,
      () => {
        length += rate * w.stepSeconds;
        w.keep(length);
        if (w.kept.length > 1) w.drop(1);
        if (length < ends) return;
        length = 0;
        if (w.chance(0.5)) ends = w.between(0.15, 0.45) * w.room;
      },
      () => size,
    );
  },
  wanders: (w) => {
    w.start(w.spread(0.5, 4));
    const most = w.between(0.3, 0.9) * w.room;
    let level = 0;
    w.work(w.seconds, () => {
      level = Math.min(most, Math.max(0, level + most * 0.12 * (w.draw() - 0.5)));
      w.drop();
      for (let k = 0; k < 4; k++) w.keep(level / 4);
    });
  },
  fragments: (w) => {
    w.start();
    const most = w.between(0.3, 0.8) * w.room;
    const sizes = Array.from({ length: 6 }, () => w.spread(0.005, 0.06) * w.room);
    const ages = [];
    let held = 0;
    w.work(w.seconds, () => {
      for (let k = 0; k < 3; k++) {
        const bytes = w.pick(sizes) * w.between(0.9, 1.1);
        const block = w.take(bytes);
        if (block !== undefined) ages.push([block, bytes]);
        held += bytes;
      }
      while (held > most) {
        const [[block, bytes]] = ages.splice(Math.floor(w.draw() * ages.length), 1);
        w.allocator.free(block);
        held -= bytes;
      }
    });
  },
  thaws: (w) => {
    w.start();
    const stages = Math.ceil(w.between(2, 7));
    const every = Math.ceil(w.between(15, 60));
    const size = (w.between(0.2, 0.95) * w.room) / stages;
    w.work(w.seconds, () => {
      if (w.step % every === 0 && w.kept.length < stages) w.keep(size);
    });
  },
};

/** How often: most runs survive, and many of them grow for a while. */
const often = {
  steady: 2,
  ragged: 2,
  evaluation: 2,
  leak: 3,
  fill: 2,
  stairs: 2,
  'cache-cleared': 2,
};
const drawn = Object.keys(kinds).flatMap((kind) =>
  Array.from({ length: often[kind] ?? 1 }, () => kind),
);

/** Events of a step as pairs and numbers, without what is too small to matter. */
function sizeOf({ built, steps, batch, length, mode }) {
  const step = steps[Math.min(2, steps.length - 1)] ?? [];
  const sizes = [];
  for (let at = 0; at < step.length; at++) if (step[at] > 0) sizes.push(step[++at]);
  const least = sizes.toSorted((a, b) => b - a)[90] ?? 0;
  const events = [];
  const kept = new Set();
  let live = 0;
  let peak = 0;
  const bytesOf = new Map();
  for (let at = 0; at < step.length; at++) {
    if (step[at] < 0) {
      if (!kept.has(-step[at])) continue;
      events.push(step[at]);
      live -= bytesOf.get(-step[at]);
      continue;
    }
    const [id, bytes] = [step[at], step[++at]];
    if (bytes < least) continue;
    kept.add(id);
    bytesOf.set(id, bytes);
    live += bytes;
    peak = Math.max(peak, live);
    events.push([id, bytes]);
  }
  return { events, peak, batch, length, mode, built };
}

function programsOf(traces) {
  const names = [...new Set(traces.map(({ program }) => program))];
  return names.flatMap((name) => {
    const own = traces.filter(({ program }) => program === name);
    const sizes = own.map(sizeOf).filter(({ events }) => events.length > 0);
    const usual = sizes.find((one) => one.mode === 'train' && one.batch === 1 && one.length === 1);
    const evaluations = sizes.filter(({ mode }) => mode === 'infer');
    if (!usual) return [];
    const trains = sizes.filter(({ mode }) => mode === 'train');
    const by = (key, other) =>
      trains.filter((one) => one[other] === 1).toSorted((a, b) => a[key] - b[key]);
    const built = [];
    for (let at = 0; at < usual.built.length; at++)
      if (usual.built[at] > 0) built.push(usual.built[++at]);
    const states = built.flatMap((bytes) => (bytes > 2 ** 18 ? [bytes, bytes] : []));
    return [
      {
        name,
        usual,
        built,
        states,
        evaluations: evaluations.length > 0 ? evaluations : [usual],
        lengths: by('length', 'batch'),
        batches: by('batch', 'length'),
      },
    ];
  });
}

/** Smaller numbers than the figures themselves. */
const differences = (list) => list.map((one, at) => one - (list[at - 1] ?? 0));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { each: { type: 'string', default: '130' }, seed: { type: 'string', default: '1' } },
});
const [folder] = positionals;
const packed = readFileSync(join(truthPlace, 'steps.json.xz'));
const programs = programsOf(JSON.parse(unpackXz(packed).toString('utf8')));
mkdirSync(folder, { recursive: true });
const rows = [];
for (const [place, program] of programs.entries()) {
  for (let number = 0; number < Number(values.each); number++) {
    const seed = Number(values.seed) * 1_000_003 + place * 10_007 + number;
    const w = new Work(program, seed);
    const kind = w.pick(drawn);
    kinds[kind](w);
    if (w.reserved.length < 30 || !Number.isFinite(w.capacity)) continue;
    const name = `${program.name}-${String(number).padStart(3, '0')}`;
    const ended = w.ended ?? 'completed';
    const at = Math.round(w.now * 1000) / 1000;
    const text = JSON.stringify({
      kind,
      program: program.name,
      capacity: Math.round(w.capacity),
      ended,
      at,
      leak: w.leak ?? null,
      interval: w.interval,
      unit: unitBytes,
      allocated: differences(w.allocated),
      reserved: differences(w.reserved),
      // One in so many steps is enough to know them all: they are even.
      steps: w.marks.filter(([, what]) => what === 'step').length,
    });
    writeFileSync(join(folder, `${name}.json`), text);
    rows.push({
      set: place % 2 ? 'scoring' : 'fitting',
      name,
      kind,
      file: `${name}.json`,
      capacity_bytes: Math.round(w.capacity),
      ended,
      seconds: at,
      interval: w.interval,
      leak_from_seconds: w.leak?.from ?? '-',
      leak_bytes_per_second: w.leak?.bytesPerSecond ?? '-',
    });
  }
}
writeFileSync(join(folder, '..', 'made.tsv'), tableText(rows));
const died = rows.filter(({ ended }) => ended === 'oom').length;
console.log(`${rows.length} series of ${programs.length} programs, ${died} ran out of memory`);
