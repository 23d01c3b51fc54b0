import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clusterStates } from '../cluster.js';
import type { RayEnd } from './job-folder.js';
import { nodesIn } from './nodes.js';
import {
  type AttemptFacts,
  isLost,
  maxRestarts,
  type RayJob,
  rayJobIn,
  rayJobsIn,
  standingOf,
} from './ray-engine.js';

const request = {
  numGpus: 0.5,
  numCpus: 0,
  memoryBytes: 0,
  resources: {},
  labels: {},
  limitBytes: 1,
  contextBytes: 0,
  why: '',
  notes: [],
};
const job = (status: string, errorType = '', exitCode: RayJob['exitCode'] = 'unknown'): RayJob => ({
  id: 'a',
  status,
  message: 'said',
  errorType,
  exitCode,
  nodeId: 'n',
});
const end: RayEnd = {
  schema: 1,
  outcome: 'failed',
  exitCode: 7,
  outOfMemory: false,
  peakBytes: 'unknown',
  node: 'n',
  endedAt: '',
  rayState: '',
};
const died = 'JOB_SUPERVISOR_ACTOR_DIED';
const facts = (change: Partial<AttemptFacts>): AttemptFacts => ({
  attempt: { schema: 1, number: 1, restart: 0, session: 's', request },
  end: undefined,
  job: undefined,
  isCancelled: false,
  mayRun: false,
  session: 's',
  ...change,
});
const attempt = (change: Partial<AttemptFacts['attempt']>) => ({
  ...facts({}).attempt,
  ...change,
});

describe('where a job of Ray stands', () => {
  it.each<[string, Partial<AttemptFacts>, string, string]>([
    ['what the node wrote counts', { end, job: job('RUNNING') }, 'failed', 'nothing'],
    ['waits', { job: job('PENDING') }, 'waiting', 'nothing'],
    ['runs', { job: job('RUNNING') }, 'running', 'nothing'],
    ['Ray alone knows its end', { job: job('SUCCEEDED') }, 'succeeded', 'keep'],
    ['was stopped in Ray', { job: job('STOPPED') }, 'cancelled', 'keep'],
    [
      'its own failure',
      { job: job('FAILED', 'JOB_ENTRYPOINT_COMMAND_ERROR', 3) },
      'failed',
      'keep',
    ],
    ['lost', { job: job('FAILED', died) }, 'waiting', 'again'],
    [
      'lost, and a node was heard',
      { job: job('FAILED', died), mayRun: true },
      'running',
      'nothing',
    ],
    ['lost and cancelled', { job: job('FAILED', died), isCancelled: true }, 'cancelled', 'keep'],
    [
      'lost too often',
      { job: job('FAILED', died), attempt: attempt({ restart: maxRestarts }) },
      'failed',
      'keep',
    ],
    [
      'waited too long for Ray, however often',
      {
        job: job('FAILED', 'JOB_SUPERVISOR_ACTOR_START_TIMEOUT'),
        attempt: attempt({ restart: maxRestarts }),
      },
      'waiting',
      'again',
    ],
    ['a new head does not know it', { session: 't' }, 'waiting', 'again'],
    ['a new head, and its node was heard', { session: 't', mayRun: true }, 'running', 'nothing'],
    ['somebody deleted it', {}, 'unknown', 'nothing'],
    [
      'cancelled while it waits',
      { job: job('PENDING'), isCancelled: true },
      'cancelled',
      'nothing',
    ],
    ['never acknowledged', { attempt: attempt({ session: 'unknown' }) }, 'unknown', 'nothing'],
    [
      'decided by a node that could not send it',
      { attempt: attempt({ number: 2, session: 'unknown' }) },
      'waiting',
      'send',
    ],
    [
      'the attempt before is about to send it',
      { attempt: attempt({ number: 2, session: 'unknown' }), mayRun: true },
      'running',
      'nothing',
    ],
  ])('%s', (_, change, state, todo) => {
    expect(standingOf(facts(change))).toMatchObject({ state, todo });
  });

  it('is lost where a signal killed its shell, and where an old Ray names no error', () => {
    expect(isLost(job('FAILED', 'JOB_ENTRYPOINT_COMMAND_ERROR', -9))).toBe(true);
    expect(isLost(job('FAILED'))).toBe(true);
    expect(isLost(job('FAILED', '', 1))).toBe(false);
  });
});

describe('answers of Ray', () => {
  it('are read with what Ray 2.60 writes', () => {
    const rows = [
      {
        type: 'SUBMISSION',
        submission_id: 'plimsoll-1',
        status: 'FAILED',
        message: 'Job entrypoint command failed with exit code 7, last logs:\nnoise',
        error_type: 'JOB_ENTRYPOINT_COMMAND_ERROR',
        driver_node_id: 'abc',
        driver_exit_code: 7,
      },
      { type: 'DRIVER', submission_id: null, job_id: '01000000', status: 'RUNNING' },
    ];
    expect(rayJobsIn(rows)).toEqual([
      {
        id: 'plimsoll-1',
        status: 'FAILED',
        message: 'Job entrypoint command failed with exit code 7, last logs:',
        errorType: 'JOB_ENTRYPOINT_COMMAND_ERROR',
        exitCode: 7,
        nodeId: 'abc',
      },
    ]);
  });

  it('name nodes with their GPUs, types and sizes; dead ones are left out', () => {
    const row = (id: string, change: object) => ({
      node_id: id,
      node_ip: '10.0.0.1',
      is_head_node: false,
      state: 'ALIVE',
      node_name: id,
      resources_total: { GPU: 2, CPU: 8 },
      labels: {},
      ...change,
    });
    const listed = {
      data: {
        result: {
          result: [
            row('n1', { resources_total: { GPU: 2, 'accelerator_type:A100-80G': 1 } }),
            row('n2', { labels: { 'ray.io/accelerator-type': 'H200' }, is_head_node: true }),
            row('n3', { resources_total: { CPU: 4 }, node_name: '' }),
            row('n4', { state: 'DEAD' }),
          ],
        },
      },
    };
    const summary = {
      data: {
        summary: [
          { raylet: { nodeId: 'n2' }, gpus: [{ memoryTotal: 143_771 }, { memoryTotal: 143_000 }] },
        ],
      },
    };
    expect(
      nodesIn(listed, summary).map(({ name, gpus, type, typeBy, gpuBytes }) => [
        name,
        gpus,
        type,
        typeBy,
        gpuBytes,
      ]),
    ).toEqual([
      ['n1', 2, 'A100-80G', 'resource', 'unknown'],
      ['n2', 2, 'H200', 'label', 143_000 * 1024 * 1024],
      ['10.0.0.1', 0, '', 'none', 'unknown'],
    ]);
  });

  it('that are anything at all break nothing', () => {
    const fields = fc.dictionary(
      fc.constantFrom('data', 'result', 'summary', 'gpus', 'raylet', 'status', 'submission_id'),
      fc.jsonValue(),
    );
    const documents = fc.oneof(fc.jsonValue(), fields, fc.array(fields));
    fc.assert(
      fc.property(documents, documents, (one, other) => {
        for (const node of nodesIn(one, other)) expect(node.gpus).toBeGreaterThanOrEqual(0);
        for (const found of [...rayJobsIn(one), rayJobIn(other)]) {
          const { state } = standingOf(facts({ job: found }));
          expect(clusterStates).toContain(state);
        }
      }),
    );
  });
});
