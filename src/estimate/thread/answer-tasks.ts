import type { MessagePort } from 'node:worker_threads';
import { type EstimateTask, inThisThread, type ReadTask } from '../estimate-work.js';
import { answerOfError, type ThreadAnswer } from './messages.js';

/** The inside of a thread: does one task after another, and sends back what came of each. */
export function answerTasks(port: MessagePort): void {
  port.on('message', (task: EstimateTask | ReadTask) => {
    void inThisThread(task)
      .then((answer): ThreadAnswer => ({ kind: 'done', answer }), answerOfError)
      .then((answer) => port.postMessage(answer));
  });
}
