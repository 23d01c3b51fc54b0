// Files made to hurt: each must end in one clear error, within a second of processor time and
// 200 MB. Every file is read in a process of its own.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const targets = { seconds: 1, megabytes: 200 };
const million = 1_000_000;

const files = {
  'imports os.system': () => pickle(Buffer.from('cos\nsystem\n(U\u0002lstR.', 'latin1')),
  'a string of 2^64 bytes': () => pickle(Buffer.alloc(9, 0xff).fill(0x8d, 0, 1)),
  '50 million values': () => pickle(Buffer.alloc(50 * million, 'N')),
  '200 million values, packed': () => gzipSync(pickle(Buffer.alloc(200 * million, 'N'))),
  '300 million zeros, packed': () => gzipSync(Buffer.alloc(300 * million)),
  '20 million lists': () => pickle(Buffer.alloc(20 * million, ']')),
  '3 million lists, each in the next': () =>
    pickle(Buffer.concat([Buffer.alloc(3 * million, ']'), Buffer.alloc(3 * million - 1, 'a')])),
  '10 million marks': () => pickle(Buffer.alloc(10 * million, '(')),
  '10 million tuples, each in the next': () =>
    pickle(Buffer.alloc(10 * million, '\u0085', 'latin1').fill('N', 0, 1)),
  '4 million dicts': () => pickle(Buffer.alloc(20 * million, '}(NNu')),
  'one value 100 million times in the memo, packed': () =>
    gzipSync(pickle(Buffer.alloc(100 * million, 0x94).fill(0x5d, 0, 1))),
  '4 million different strings': () => pickle(strings(4 * million)),
  '5 million frames': () =>
    pickle(Buffer.alloc(50 * million, '\u0095\u0001\0\0\0\0\0\0\0N', 'latin1')),
  'half a file': () => pickle(Buffer.alloc(8, '}(')),
  text: () => Buffer.from('{"segments": []}'),
};

function pickle(body) {
  return Buffer.concat([Buffer.from([0x80, 4]), body]);
}

function strings(count) {
  const body = Buffer.alloc(count * 6);
  for (let at = 0; at < count; at += 1) {
    body.set([0x8c, 4], at * 6);
    body.writeUInt32LE(at, at * 6 + 2);
  }
  return body;
}

/** Answers whether all of them were refused in time; `self` is run with `--child FILE`. */
export function refuseAll(self) {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-hostile-'));
  const path = join(folder, 'file.pickle');
  let well = true;
  try {
    for (const [name, make] of Object.entries(files)) {
      writeFileSync(path, make());
      const { stdout } = spawnSync(process.execPath, [self, '--child', path], { encoding: 'utf8' });
      const { refused, busySeconds, peakBytes } = JSON.parse(stdout);
      const megabytes = peakBytes / million;
      const ok =
        refused !== undefined && busySeconds <= targets.seconds && megabytes <= targets.megabytes;
      well &&= ok;
      const figures = `${busySeconds.toFixed(2)} s, ${megabytes.toFixed(0)} MB`;
      console.log(`${ok ? 'ok  ' : 'FAIL'} ${name}: ${refused ?? 'was read'}, ${figures}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return well;
}
