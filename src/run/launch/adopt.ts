import { closeSync, openSync, readSync } from 'node:fs';
import type { Known } from '../../units/known.js';
import { readNumberFile } from '../store/number-file.js';
import { type EndingOptions, findEnding } from './ending.js';
import type { RunningJob } from './launch.js';
import type { OutputPlan, RawOutput } from './outputs.js';

const chunkBytes = 64 * 1024;
const followMs = 100;

/**
 * A job that an earlier supervisor started and did not live to see end. What it prints goes where
 * it went before; from the file that its drainer keeps we see it, too.
 */
export function adoptJob(
  options: EndingOptions & {
    /** Where to show what it prints now. */
    readonly outputs: { readonly stdout: RawOutput; readonly stderr: RawOutput };
    readonly onOutput: (bytes: Uint8Array) => void;
  },
): RunningJob {
  const { files, onOutput, outputs } = options;
  const show = (output: RawOutput) => (bytes: Uint8Array) => {
    onOutput(bytes);
    output.write(bytes).catch(() => {});
  };
  const names: readonly (readonly [OutputPlan['name'], RawOutput])[] = [
    ['both', outputs.stdout],
    ['stdout', outputs.stdout],
    ['stderr', outputs.stderr],
  ];
  const followers = names.map(([name, to]) => follow(files.lateOutput(name), show(to)));
  const ended: Promise<Known<number>> = findEnding(options);
  return {
    pid: Promise.resolve(readNumberFile(files.jobPid)),
    keeperPid: readNumberFile(files.keeperPid),
    ended,
    drained() {
      for (const follower of followers) follower.end();
      return Promise.resolve();
    },
    resize() {},
  };
}

/** Reads a file that grows, from its start. */
function follow(path: string, take: (bytes: Uint8Array) => void): { end(): void } {
  let at = 0;
  const look = () => {
    let fd: number;
    try {
      fd = openSync(path, 'r');
    } catch {
      return;
    }
    try {
      for (;;) {
        const buffer = Buffer.allocUnsafe(chunkBytes);
        const count = readSync(fd, buffer, 0, chunkBytes, at);
        if (count === 0) return;
        at += count;
        take(buffer.subarray(0, count));
      }
    } finally {
      closeSync(fd);
    }
  };
  const timer = setInterval(look, followMs);
  return {
    end() {
      clearInterval(timer);
      look();
    },
  };
}
