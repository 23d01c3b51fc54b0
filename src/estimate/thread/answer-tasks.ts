import type { MessagePort } from 'node:worker_threads';
import { type AnyTask, type EstimateWork, inThisThread, inTwoThreads } from '../estimate-work.js';
import { answerOfError, type ThreadAnswer } from './messages.js';

/**
 * The inside of a thread: does one task after another, and sends back what came of each. `beside` is
 * another thread, which does at the same time what can be done so.
 */
export function answerTasks(port: MessagePort, beside?: EstimateWork): void {
  port.on('message', (task: AnyTask) => {
    void (beside === undefined ? inThisThread(task) : inTwoThreads(task, beside))
      .then((answer): ThreadAnswer => ({ kind: 'done', answer }), answerOfError)
      .then((answer) => port.postMessage(answer));
  });
}
