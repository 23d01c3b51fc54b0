import { resolve } from 'node:path';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';

/** Scripts and configurations are some kilobytes; a larger file is data. */
const maxBytes = MiB;

/** The Python program that a command starts, and its text. */
export interface Script {
  readonly path: string;
  readonly text: string;
}

/**
 * The program that Python runs: `train.py`, or the file of `-m package.train`; undefined where it
 * cannot be read.
 */
export function scriptOf(command: readonly string[], folder: string): Script | undefined {
  const at = command.findIndex((word, index) => index > 0 && word.endsWith('.py'));
  const flag = command.indexOf('-m');
  const module = flag === -1 || (at !== -1 && at < flag) ? undefined : command[flag + 1];
  const name = module === undefined ? command[at] : `${module.replaceAll('.', '/')}.py`;
  const path = name === undefined ? undefined : resolve(folder, name);
  const text = path === undefined ? undefined : readText(path);
  return path === undefined || text === undefined ? undefined : { path, text };
}

/** Undefined where it cannot be read. */
export function readText(path: string): string | undefined {
  return readOwnFile(path, maxBytes);
}
