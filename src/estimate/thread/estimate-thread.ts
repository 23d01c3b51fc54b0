// The program of a thread that makes estimates: see estimate-threads.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { answerTasks } from './answer-tasks.js';
import { estimateThreads } from './estimate-threads.js';

const mayStartAnother = Reflect.get(Object(workerData), 'mayStartAnother') === true;
const beside = estimateThreads({ program: new URL(import.meta.url), most: 1 });
if (parentPort !== null) answerTasks(parentPort, mayStartAnother ? beside.work : undefined);
