// Sharded programs as they are: what `plimsoll estimate -- torchrun ...` answers, beside what one rank of
// the same program took of an H200 (bench/gpu/ranks/measure.py).
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { truthFolder } from '../truth.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const measured = new URL('../results/rows/ranks.json', import.meta.url);
/** The farthest that reserved memory may be off. */
const maxDistance = 0.05;

export function programRows(python) {
  const { programs } = JSON.parse(readFileSync(measured, 'utf8'));
  return programs.map((program) => programRow(python, program));
}

function programRow(python, { name, command: [launcher, ...words], ...took }) {
  const estimate = ['bin/plimsoll.js', 'estimate', '--gpu', 'h200', '--json', '--'];
  // The rows name these models as files of the tree, in which they lay when the programs were measured.
  const moved = words.map((word) =>
    word.replace('bench/truth/sharded-configs', `${truthFolder('cases')}sharded-configs`),
  );
  // The launcher that belongs to this Python.
  const PATH = `${dirname(python)}:${process.env.PATH}`;
  const end = spawnSync(process.execPath, [...estimate, launcher, ...moved], {
    cwd: root,
    env: { ...process.env, PATH },
    encoding: 'utf8',
  });
  if (end.status !== 0) return { name, failure: end.stderr.trim() };
  const { peak, interval } = JSON.parse(end.stdout);
  return {
    name,
    allocated: peak.allocatedBytes / took.allocatedBytes - 1,
    reserved: peak.reservedBytes / took.reservedBytes - 1,
    inside: interval.lowBytes <= took.reservedBytes && took.reservedBytes <= interval.highBytes,
  };
}

export function areProgramsMet(rows) {
  return rows.every(({ reserved, inside }) => inside && Math.abs(reserved) <= maxDistance);
}

export function programLines(rows) {
  return rows.map(({ name, allocated, reserved, inside, failure }) =>
    failure === undefined
      ? `${name}: allocated ${percent(allocated)}, reserved ${percent(reserved)}${inside ? '' : ', outside of the interval'}`
      : `${name}: failed: ${failure}`,
  );
}

function percent(share) {
  return `${(share * 100).toFixed(3)} %`;
}
