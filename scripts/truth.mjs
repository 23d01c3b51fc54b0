// `npm run truth`: the measured sets of bench/truth. bench/truth/README.md says what they hold.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, Trouble } from './bundle/trouble.mjs';
import { ensureBuilt } from './setup.mjs';
import { root } from './steps.mjs';

const help = `Measured sets: what programs, models and recordings took of a real GPU.

  npm run truth -- list [NAME [TEXT]]         the sets, or the rows of one (those with TEXT in them)
  npm run truth -- unpack NAME [--to FOLDER]  writes the files of a set, into build/truth/NAME/DIGEST as a rule
  npm run truth -- pack NAME --from FOLDER    makes the archive of a set again, with the digests in its tables
                       [--python PROGRAM]     packs with this Python's lzma (python3)
  npm run truth -- --help

bench/truth/NAME.tsv has a row for each measurement; pack wants the file of each row in FOLDER.
Exit codes: 0 done, 2 called in a wrong way, 3 something is missing or damaged.
`;

/** All that decides about the bytes is named: another default of another version changes nothing. */
const compressor = `import lzma, sys
filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 24, "lc": 4, "lp": 0, "pb": 0, "mode": lzma.MODE_NORMAL,
            "nice_len": 273, "mf": lzma.MF_BT4, "depth": 512}]
packed = lzma.compress(sys.stdin.buffer.read(), lzma.FORMAT_XZ, lzma.CHECK_CRC64, filters=filters)
sys.stdout.buffer.write(packed)`;

const gib = (bytes) =>
  Number.isInteger(Number(bytes)) ? `${(Number(bytes) / 2 ** 30).toFixed(2)} GiB` : '-';

try {
  await run(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Trouble)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
}

async function run(words) {
  const { command, rest, values } = read(words);
  if (values.help) {
    process.stdout.write(help);
    return;
  }
  const work = { list, unpack, pack }[command];
  if (work === undefined) usage(command ? `There is no command ${command}.` : 'No command given.');
  // A fresh checkout has no dist, and an older one reads archives as well.
  if (!existsSync(join(root, 'dist', 'snapshot', 'xz', 'xz-reader.js'))) await ensureBuilt();
  work(await import('../bench/truth.mjs'), rest, values);
}

function read(words) {
  const text = { type: 'string' };
  const options = { to: text, from: text, python: text, help: { type: 'boolean', short: 'h' } };
  try {
    const { positionals, values } = parseArgs({ args: words, options, allowPositionals: true });
    const [command, ...rest] = positionals;
    return { command, rest, values };
  } catch (error) {
    return usage(error.message);
  }
}

function usage(fact) {
  return fail('bad-usage', fact, 'npm run truth -- --help shows the commands.', 2);
}

function setOf(truth, [name, ...more], most = 0) {
  if (name === undefined) usage('No set is named.');
  if (more.length > most) usage(`${more[most]} is one word too many.`);
  const sets = truth.truthSets();
  const found = sets.find((set) => set.name === name);
  if (found) return found;
  const names = sets.map((set) => set.name).join(', ');
  return fail('unknown-set', `There is no set ${name}.`, `Name one of: ${names}.`, 2);
}

function list(truth, words) {
  if (words.length === 0) {
    const rows = truth.truthSets().map(({ name, files, tar_bytes: bytes, about }) => {
      const mib = `${(bytes / 2 ** 20).toFixed(1)} MiB`;
      return [name, `${truth.truthRows(name).length} rows`, `${files} files`, mib, about];
    });
    print(rows);
    return;
  }
  const { name } = setOf(truth, words, 1);
  const rows = truth.truthRows(name).filter((row) =>
    Object.values(row)
      .join(' ')
      .includes(words[1] ?? ''),
  );
  if (rows.length === 0)
    fail('no-rows', `No row of ${name} has ${words[1]} in it.`, 'Try another text.', 2);
  const head = ['set', 'name', 'allocated', 'reserved', 'measured', 'blind for'];
  print([
    head,
    ...rows.map((row) => [
      row.set,
      row.name,
      gib(row.allocated_bytes),
      gib(row.reserved_bytes),
      row.measured,
      row.blind_for,
    ]),
  ]);
}

function print(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  for (const row of rows) {
    console.log(
      row
        .map((text, column) => text.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    );
  }
}

function unpack(truth, words, { to }) {
  const { name } = setOf(truth, words);
  if (to === undefined) {
    console.log(truth.truthFolder(name));
    return;
  }
  const folder = resolve(to);
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    fail('folder-in-use', `${folder} is not empty.`, 'Name a folder that does not exist yet.', 2);
  }
  orFail(name, () => truth.unpackSet(name, folder));
  console.log(folder);
}

/** An archive that cannot be read is the checkout's fault, not a bug. */
function orFail(name, work) {
  try {
    return work();
  } catch (error) {
    return fail(
      'bad-archive',
      `bench/truth/${name}.tar.xz cannot be unpacked: ${error.message}.`,
      `git checkout bench/truth/${name}.tar.xz brings it back.`,
    );
  }
}

function pack(truth, words, { from, python = 'python3' }) {
  const { name } = setOf(truth, words);
  if (from === undefined) usage('pack needs --from FOLDER.');
  if (!existsSync(from))
    fail('no-folder', `There is no folder ${from}.`, 'Unpack the set into it first.', 2);
  const rows = truth.truthRows(name).map((row) => digested(truth, row, from));
  const kept = new Set(truth.keptFiles(name));
  const names = truth.filesIn(from).filter((file) => !kept.has(file));
  const tar = truth.tarOf(from, names);
  const place = join(root, 'bench', 'truth');
  writeFileSync(join(place, `${name}.tar.xz`), compressed(tar, python));
  writeFileSync(join(place, `${name}.tsv`), truth.tableText(rows));
  const facts = { files: names.length, tar_bytes: tar.length, tar_sha256: truth.digestOf(tar) };
  const sets = truth
    .truthSets()
    .map((set) => (set.name === name ? Object.assign(set, facts) : set));
  writeFileSync(join(place, 'sets.tsv'), truth.tableText(sets));
  console.log(`${names.length} files are in bench/truth/${name}.tar.xz.`);
}

/** The row with the digest of its file. */
function digested(truth, row, from) {
  if (row.file === '-') return row;
  const path = truth.fileOf(row, from);
  if (!existsSync(path)) {
    fail(
      'no-file',
      `${row.file}, the file of ${row.name}, is not in ${from}.`,
      'Add it, or take its row out.',
    );
  }
  return Object.assign(row, { sha256: truth.digestOf(readFileSync(path)).slice(0, 16) });
}

function compressed(tar, python) {
  const { status, stdout, stderr, error } = spawnSync(python, ['-c', compressor], {
    input: tar,
    maxBuffer: 2 ** 28,
  });
  if (status === 0) return stdout;
  const why = error?.message ?? stderr.toString().trim();
  return fail(
    'no-lzma',
    `${python} did not pack: ${why}.`,
    '--python names a Python that has lzma.',
  );
}
