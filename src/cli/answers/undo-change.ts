import { undoLastChange } from '../../files/change-files.js';
import { type CliIo, printJson } from '../io.js';

/** Puts back what the last --apply wrote, and tells it; exit code 1 where a file was left alone. */
export function undoChange(folder: string, json: boolean, io: CliIo): number {
  const { restored, changedSince } = undoLastChange(folder);
  if (json) printJson(io, { restored, changedSince });
  else {
    const words = [
      `Put back: ${restored.length} ${restored.length === 1 ? 'file' : 'files'}.`,
      ...changedSince.map((file) => `Left alone, as it changed since: ${file}`),
    ];
    io.stdout.write(`${words.join('\n')}\n`);
  }
  return changedSince.length > 0 ? 1 : 0;
}
