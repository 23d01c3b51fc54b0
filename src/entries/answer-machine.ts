import { totalmem } from 'node:os';
import { discoverDevices } from '../device/discover.js';
import { gpusAmong } from '../estimate/cards/gpu-at-hand.js';
import type { AnswerMachine } from '../plan/answers/machine.js';
import type { RequestWording } from '../plan/answers/wording.js';
import {
  callable,
  checkOptions,
  fileName,
  list,
  object,
  truth,
  whole,
} from '../units/arguments.js';

/** What may be set; the rest is this process and this machine. */
export type AnswerMachineOptions = Partial<Omit<AnswerMachine, 'wording'>>;

/** Errors name fields as a program writes them. */
const wording: RequestWording = {
  name: (field) => field,
  example: (field, value) => `${field}: ${JSON.stringify(value)}`,
  anotherPython: 'name another with python',
};

/**
 * What `answerEstimate` and `answerPlan` may use: this machine, unless set otherwise.
 *
 * @example
 * const machine = answerMachine({ python: '/opt/torch/bin/python' });
 */
export function answerMachine(options: AnswerMachineOptions = {}): AnswerMachine {
  checkOptions('answerMachine', options, {
    python: fileName,
    environment: object,
    folder: fileName,
    signal: object,
    onProgress: callable,
    work: callable,
    warm: object,
    hub: truth,
    gpusHere: callable,
    gpus: list,
    hostBytes: whole(0),
  });
  return {
    environment: process.env,
    folder: process.cwd(),
    gpusHere,
    hostBytes: totalmem(),
    ...options,
    wording,
  };
}

async function gpusHere() {
  const discovery = await discoverDevices();
  try {
    return await gpusAmong(discovery.devices);
  } finally {
    discovery.close();
  }
}
