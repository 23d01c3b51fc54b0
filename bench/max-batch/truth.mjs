// Measured largest batches, as arguments of the command.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { caseFolders } from '../accuracy/cases.mjs';

const folders = caseFolders().configs;

/** The file holds the cases, or a report with `results`. */
export function readTruth(path) {
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
