// The program of a thread that makes estimates: see estimate-threads.ts.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { type AnyTask, type EstimateWork, inThisThread, inTwoThreads } from '../estimate-work.js';
import { answerOfError, estimateThreads, type ThreadAnswer } from './estimate-threads.js';

const mayStartAnother = Reflect.get(Object(workerData), 'mayStartAnother') === true;
const threads = estimateThreads({ program: new URL(import.meta.url), most: 1 });
if (parentPort !== null) answerTasks(parentPort, mayStartAnother ? threads.work : undefined);

/**
 * The inside of a thread: does one task after another, and sends back what came of each. `beside` is
 * another thread, which does at the same time what can be done so.
 */
function answerTasks(port: MessagePort, beside?: EstimateWork): void {
  port.on('message', (task: AnyTask) => {
    void (beside === undefined ? inThisThread(task) : inTwoThreads(task, beside))
      .then((answer): ThreadAnswer => ({ kind: 'done', answer }), answerOfError)
      .then((answer) => port.postMessage(answer));
  });
}
