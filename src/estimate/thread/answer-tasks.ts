import type { MessagePort } from 'node:worker_threads';
import { type EstimateTask, inThisThread } from '../estimate-work.js';
import { answerOfError, type ThreadAnswer } from './messages.js';

/** The inside of a thread: does one task after another, and sends back what came of each. */
export function answerTasks(port: MessagePort): void {
  port.on('message', (task: EstimateTask) => {
    void inThisThread(task)
      .then((estimate): ThreadAnswer => ({ kind: 'estimate', estimate }), answerOfError)
      .then((answer) => port.postMessage(answer));
  });
}
