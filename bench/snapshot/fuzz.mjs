// Feeds broken snapshots to the reader and counts how it answers; anything but a clear refusal, or
// an input that takes longer than a second, ends it with an error. With xz at hand, what it packs is
// unpacked by the reader's own decoder, too, and compared.
//
//   npm run build && node bench/snapshot/fuzz.mjs [INPUTS] [SEED]
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const dist = process.env.PLIMSOLL_DIST ?? new URL('../../dist/', import.meta.url).pathname;
const load = (path) => import(pathToFileURL(`${dist}/${path}`).href);
const { parseSnapshot } = await load('snapshot/read-snapshot.js');
const { analyseSnapshot } = await load('snapshot/analyse.js');
const { XzReader } = await load('snapshot/xz/xz-reader.js');

let state = 1;

/** The same seed gives the same inputs. */
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

const whole = unpack(readFileSync(new URL('../truth/snapshots/oom.pickle.xz', import.meta.url)));
const small = sample(whole);
/** Opcodes, so that changed bytes do more than end the pickle. */
const codes = [...Buffer.from('(.012GJKMNTUX]abcdehijlqrstu}BC)RPQo')];
for (let code = 0x80; code <= 0x98; code += 1) codes.push(code);

/** Throws at the first input that is answered by anything but data or a clear refusal. */
export function fuzz(inputs, seed) {
  state = seed | 1;
  console.log(`${inputs} inputs, seed ${state}`);
  const answers = new Map();
  let slowest = 0;
  for (let input = 0; input < inputs; input += 1) {
    const bytes = broken(input);
    const started = performance.now();
    const answer = answerTo(bytes);
    const seconds = (performance.now() - started) / 1000;
    if (seconds > slowest) slowest = seconds;
    // A machine with other work may stop us for a while; the same input again tells.
    if (seconds > 1 && secondsOf(bytes) > 1) throw new Error(`input ${input} takes more than 1 s`);
    answers.set(answer, (answers.get(answer) ?? 0) + 1);
  }
  console.log(Object.fromEntries([...answers].toSorted((one, other) => other[1] - one[1])));
  console.log(`slowest ${slowest.toFixed(3)} s; no crash, no hang`);
  compareWithXz();
}

function secondsOf(bytes) {
  const started = process.cpuUsage().user;
  answerTo(bytes);
  return (process.cpuUsage().user - started) / 1e6;
}

function answerTo(bytes) {
  try {
    const snapshot = parseSnapshot(bytes);
    if (snapshot.devices.length > 0) analyseSnapshot(snapshot);
    return 'read';
  } catch (error) {
    if (error?.name === 'Failure' && error.kind === 'input') return error.code;
    throw error;
  }
}

/** One of: bytes changed, opcodes put in, a piece left out, a piece doubled, cut, made up. */
function broken(input) {
  const damage = input % 6;
  if (damage === 5) {
    const made = Uint8Array.from({ length: 2 + random(120) }, () => codes[random(codes.length)]);
    made.set([0x80, 2 + random(4)]);
    return made;
  }
  const from = small.slice();
  const at = 2 + random(from.length - 2);
  if (damage === 0) for (let n = random(8); n >= 0; n -= 1) from[random(from.length)] = random(256);
  if (damage === 1) {
    for (let n = random(6); n >= 0; n -= 1) from[random(from.length)] = codes[random(codes.length)];
  }
  if (damage === 2) return joined(from.subarray(0, at), from.subarray(at + random(40)));
  if (damage === 3)
    return joined(from.subarray(0, at), from.subarray(Math.max(2, at - random(200))));
  if (damage === 4) return from.subarray(0, at);
  return from;
}

function joined(...parts) {
  return Uint8Array.from(Buffer.concat(parts));
}

/** A real snapshot with few events, pickled anew, so that an input takes microseconds. */
function sample(pickle) {
  const script = `import pickle,sys
s=pickle.loads(sys.stdin.buffer.read())
t=s['device_traces'][0]
s['device_traces'][0]=t[:6]+[e for e in t if e['action']=='oom']+t[-4:]
s['segments']=s['segments'][:3]+s['segments'][-2:]
for e in s['device_traces'][0]+s['segments']: e['frames']=e['frames'][:3]
for g in s['segments']:
  for b in g['blocks']: b['frames']=b['frames'][:3]
sys.stdout.buffer.write(pickle.dumps(s,4))`;
  const { stdout, status } = spawnSync('python3', ['-c', script], { input: pickle });
  if (status !== 0) throw new Error('python3 is needed to make the first snapshot');
  return Uint8Array.from(stdout);
}

function unpack(packed) {
  const parts = [];
  const reader = new XzReader((bytes) => {
    parts.push(bytes.slice());
    return true;
  });
  reader.push(packed);
  reader.end();
  return Buffer.concat(parts);
}

/** The packer to compare with, where there is one. */
const theirs = 'xz';

function compareWithXz() {
  if (spawnSync(theirs, ['--version']).status !== 0) {
    console.log('no xz here, so none to compare with');
    return;
  }
  let compared = 0;
  for (const level of ['-0', '-1', '-6', '-9e']) {
    for (const settings of ['lc=3,lp=0,pb=2', 'lc=0,lp=2,pb=0', 'lc=4,lp=0,pb=4']) {
      for (const check of ['none', 'crc32', 'crc64', 'sha256']) {
        const preset = level.slice(1);
        const data = mixed(1 + random(400_000));
        const packer = ['-c', `--check=${check}`, `--lzma2=preset=${preset},${settings}`];
        const { stdout } = spawnSync(theirs, packer, { input: data, maxBuffer: 2 ** 26 });
        if (!unpack(stdout).equals(data)) throw new Error(`differs from xz: ${packer.join(' ')}`);
        compared += 1;
      }
    }
  }
  console.log(`${compared} archives of xz unpacked to the same bytes`);
}

/** Noise, repetition near and far, and text in turn. */
function mixed(length) {
  const data = Buffer.alloc(length);
  let at = 0;
  while (at < length) {
    const run = Math.min(length - at, 1 + random(5000));
    const kind = random(3);
    for (let n = 0; n < run; n += 1) {
      if (kind === 0) data[at + n] = random(256);
      else if (kind === 1 && at > 0) data[at + n] = data[at + n - 1 - random(Math.min(at, 3))] ?? 0;
      else data[at + n] = 97 + (n % 23);
    }
    if (kind === 2 && at > run) data.copy(data, at, at - run, at);
    at += run;
  }
  return data;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  fuzz(Number(process.argv[2] ?? 100_000), Number(process.argv[3] ?? Date.now() % 2 ** 31));
}
