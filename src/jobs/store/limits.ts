import { Failure } from '../../failure.js';
import type { NewJob } from './records.js';

/** Linux takes commands of up to 2 MiB; what is kept for each of 100,000 jobs should be less. */
const commandBytes = 256 * 1024;
/** The environment and the workload of a job, as JSON. */
const detailBytes = 256 * 1024;
/** It stands in a column of a table. */
const nameCharacters = 200;
/** Beyond this the order is by priority alone for half a day: age would mean nothing. */
const priorities = { least: -100, most: 100 };
/** The largest machines have 16. */
const maxGpus = 64;
/** A sentence or two, not a log. */
export const reasonCharacters = 2000;

/** Refuses what cannot be kept; so does every caller learn the same limits. */
export function checkNewJob(job: NewJob): void {
  const { command, name, priority, need, details } = job;
  const checks: readonly (readonly [boolean, string, string, string])[] = [
    [
      command.length > 0 && command[0] !== '' && command.every((word) => !word.includes('\0')),
      'The command is empty.',
      'Give the program and its arguments as a list of texts without zero bytes.',
      'command',
    ],
    [
      bytesOf(command) <= commandBytes,
      `The command has ${bytesOf(command)} bytes.`,
      `At most ${commandBytes} are taken; put long input into a file.`,
      'command',
    ],
    [
      name.length <= nameCharacters,
      `The name has ${name.length} characters.`,
      `At most ${nameCharacters} are taken.`,
      'name',
    ],
    [
      Number.isInteger(priority) && priority >= priorities.least && priority <= priorities.most,
      `The priority is ${priority}.`,
      `Give a whole number from ${priorities.least} to ${priorities.most}.`,
      'priority',
    ],
    [
      Number.isInteger(need.gpus) && need.gpus >= 0 && need.gpus <= maxGpus,
      `The job asks for ${need.gpus} GPUs.`,
      `Give a whole number from 0 (the host's memory) to ${maxGpus}.`,
      'gpus',
    ],
    [
      Number.isSafeInteger(need.bytes) && need.bytes >= 0,
      `The job asks for ${need.bytes} bytes.`,
      'Give a whole number of bytes.',
      'memoryBytes',
    ],
    [
      bytesOf(details) <= detailBytes,
      `Workload, environment and settings of the job have ${bytesOf(details)} bytes.`,
      `At most ${detailBytes} are taken.`,
      'workload',
    ],
  ];
  const missed = checks.find(([holds]) => !holds);
  if (missed === undefined) return;
  const [, fact, next, field] = missed;
  throw new Failure({ kind: 'input', code: 'bad-job', fact, next, field });
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}
