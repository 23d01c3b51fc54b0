// The program of a thread that makes estimates: see estimate-threads.ts.
import { parentPort } from 'node:worker_threads';
import { answerTasks } from './answer-tasks.js';

if (parentPort !== null) answerTasks(parentPort);
