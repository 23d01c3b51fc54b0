// The largest batch that `plimsoll plan --max-batch` answers, beside the largest that trained on an
// H200 whose allocator was capped.
//
//   npm run build && node bench/max-batch.mjs [--truth FILE] [--only TEXT] [--python PROGRAM]
//     [--command FILE] [--json]
//
// Ends with exit code 1 when one of them is larger than what ran, or below 97 % of it.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { caseFolders } from './accuracy/cases.mjs';
import { benchPython } from './accuracy/traces.mjs';

// Measured largest batches, as arguments of the command.

const folders = caseFolders().configs;

/** The file holds the cases, or a report with `results`. */
function readTruth(path) {
  const document = JSON.parse(readFileSync(path, 'utf8'));
  const cases = Array.isArray(document) ? document : document.results;
  return cases.map((one) => ({
    id: [
      one.model,
      `s${one.seq}`,
      one.precision,
      one.optimizer,
      ...(one.checkpointing ? ['checkpointing'] : []),
    ].join(' '),
    capGib: one.cap_gib,
    ran: one.max_fits,
    failed: one.min_ooms,
    argv: [
      modelOf(one.model),
      `--mode=${one.mode ?? 'train'}`,
      `--seq=${one.seq}`,
      `--precision=${one.precision}`,
      `--optimizer=${one.optimizer}`,
      ...(one.checkpointing ? ['--checkpointing'] : []),
    ],
  }));
}

/** A model without a config is one of torchvision. */
function modelOf(name) {
  const found = folders
    .map((folder) => join(folder, `${name}.json`))
    .find((path) => existsSync(path));
  return found ?? `torchvision:${name}`;
}

const leastShare = 0.97;

const { values } = parseArgs({
  options: {
    truth: { type: 'string', default: new URL('truth/max-batch.json', import.meta.url).pathname },
    only: { type: 'string', default: '' },
    python: { type: 'string', default: benchPython() },
    command: { type: 'string', default: new URL('../bin/plimsoll.js', import.meta.url).pathname },
    json: { type: 'boolean', default: false },
  },
});

const rows = [];
for (const one of readTruth(values.truth).filter(({ id }) => id.includes(values.only))) {
  const row = measure(one);
  rows.push(row);
  if (!values.json) console.log(lineOf(row));
}
if (values.json) console.log(JSON.stringify({ leastShare, rows }, undefined, 2));
const missed = rows.filter(({ share }) => !(share >= leastShare && share <= 1));
if (!values.json) {
  console.log(
    `${rows.length - missed.length} of ${rows.length} from ${leastShare * 100} % to 100 %`,
  );
}
process.exitCode = rows.length === 0 || missed.length > 0 ? 1 : 0;

function measure({ id, capGib, argv, ran, failed }) {
  const started = performance.now();
  const args = ['plan', ...argv, '--allocator-memory', `${capGib}GiB`, '--max-batch', '--json'];
  const end = spawnSync(
    process.execPath,
    [values.command, ...args, '--python', values.python, '--method', 'trace'],
    { encoding: 'utf8', maxBuffer: 2 ** 28 },
  );
  const seconds = (performance.now() - started) / 1000;
  if (end.status !== 0 && end.status !== 1) {
    return { id, capGib, ran, failed, share: 0, seconds, error: end.stderr.trim() };
  }
  const { settings, fits, alternatives } = JSON.parse(end.stdout);
  const ours = fits ? settings.batch : 0;
  return {
    id,
    capGib,
    ran,
    failed,
    ours,
    share: ours / ran,
    tries: alternatives.length + 1,
    seconds,
  };
}

function lineOf({ id, capGib, ran, failed, ours, share, tries, seconds, error }) {
  const head = `${id.padEnd(44)} ${String(capGib).padStart(3)} GiB`;
  if (error !== undefined) return `${head}  failed: ${error}`;
  const truth = `ran ${ran}, out of memory at ${failed}`.padEnd(32);
  const verdict = share > 1 ? 'too large' : share < leastShare ? 'too small' : 'good';
  return `${head}  ${truth} ours ${String(ours).padStart(4)}  ${(share * 100).toFixed(1).padStart(5)} %  ${verdict}  (${tries} estimates, ${seconds.toFixed(0)} s)`;
}
