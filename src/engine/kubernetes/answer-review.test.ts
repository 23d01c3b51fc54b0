import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';
import { answerReview, readReview } from './answer-review.js';
import type { GpuSharing } from './pod-request.js';

/** As an API server of 1.32 asks, with what it has filled in before. */
function reviewOf(annotations: object, container: object = {}, metadata: object = {}): object {
  return {
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
      kind: { group: '', version: 'v1', kind: 'Pod' },
      resource: { group: '', version: 'v1', resource: 'pods' },
      requestKind: { group: '', version: 'v1', kind: 'Pod' },
      namespace: 'ml',
      operation: 'CREATE',
      userInfo: { username: 'admin', groups: ['system:authenticated'] },
      object: {
        kind: 'Pod',
        apiVersion: 'v1',
        metadata: { name: 'train', annotations, ...metadata },
        spec: {
          containers: [
            { name: 'sidecar', image: 'log:1', resources: {} },
            { name: 'train', image: 'pytorch:1', resources: {}, ...container },
          ],
          schedulerName: 'default-scheduler',
        },
        status: {},
      },
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
    },
  };
}

const faults: unknown[] = [];
async function ask(review: object, sharing: GpuSharing = 'hami', strict = false) {
  const rules = {
    sharing,
    strict,
    estimate: ({ batch = 1 }) => Promise.resolve(batch * GiB),
    fault: (error: unknown) => faults.push(error),
  };
  const answer = await answerReview(readReview(review), rules, 10);
  const { response } = Object(answer);
  expect(response.uid).toBe('705ab4f5-6393-11e8-b7cc-42010a800002');
  const steps = response.patch && JSON.parse(Buffer.from(response.patch, 'base64').toString());
  return { ...response, steps, pod: patched(review, steps ?? []) };
}

/** The pod after a JSON Patch of ours, which only adds. */
function patched(review: object, steps: readonly { path: string; value: unknown }[]) {
  const pod = structuredClone(Object(review).request.object);
  for (const { path, value } of steps) {
    const names = path
      .slice(1)
      .split('/')
      .map((one) => one.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = names.pop() ?? '';
    const parent = names.reduce((node, name) => node[name], pod);
    parent[last] = value;
  }
  return pod;
}

const size = { 'plimsoll.dev/estimate': '20GiB' };
const whole = {
  resources: { limits: { 'nvidia.com/gpu': '2' }, requests: { 'nvidia.com/gpu': '2' } },
};

describe('a pod that is annotated with its estimate', () => {
  it('asks HAMi for memory, in the container with a GPU, and again the same', async () => {
    const owner = { ownerReferences: [{ kind: 'Job', name: 'bert', controller: true }] };
    const first = await ask(reviewOf(size, whole, owner));
    expect(first.allowed).toBe(true);
    expect(first.patchType).toBe('JSONPatch');
    const [sidecar, train] = first.pod.spec.containers;
    expect(sidecar.resources).toEqual({});
    expect(train.resources).toEqual({
      limits: { 'nvidia.com/gpu': '2', 'nvidia.com/gpumem': '20480' },
      requests: {
        'nvidia.com/gpu': '2',
        'nvidia.com/gpumem': '20480',
        cpu: '4',
        memory: '16384Mi',
      },
    });
    expect(train.env).toEqual([
      { name: 'PLIMSOLL_JOB_ENGINE', value: 'kubernetes' },
      { name: 'PLIMSOLL_JOB_ID', value: 'ml/bert' },
      { name: 'PLIMSOLL_JOB_NAME', value: 'bert' },
      { name: 'PLIMSOLL_MEMORY_BYTES', value: String(20 * GiB - 500 * MiB) },
    ]);
    expect(first.pod.metadata.annotations).toMatchObject({ 'plimsoll.dev/basis': 'stated' });
    const again = Object(reviewOf(size));
    const second = await ask({ ...again, request: { ...again.request, object: first.pod } });
    expect([second.steps, second.warnings]).toEqual([undefined, undefined]);
  });

  it('asks KAI by an annotation, a queue and its scheduler; keeps whole GPUs that it states', async () => {
    const { pod } = await ask(reviewOf({ ...size, 'plimsoll.dev/container': 'train' }), 'kai');
    expect(pod.spec.schedulerName).toBe('kai-scheduler');
    expect(pod.metadata.annotations).toMatchObject({ 'gpu-memory': '20480' });
    expect(pod.metadata.labels).toEqual({ 'kai.scheduler/queue': 'default' });
    expect(pod.spec.containers[1].env).toHaveLength(1);
    const kept = await ask(reviewOf(size, whole), 'kai');
    expect(kept.steps).toBeUndefined();
    expect(kept.warnings[0]).toMatch(/^plimsoll: it asks for nvidia.com\/gpu and keeps it/);
  });

  it('asks a plain cluster for a GPU, by the estimate of a workload', async () => {
    const workload = '{"model": "gpt2", "batch": 8}';
    const { pod } = await ask(reviewOf({ 'plimsoll.dev/estimate': workload }), 'none');
    expect(pod.spec.containers[0].resources.limits).toEqual({ 'nvidia.com/gpu': '1' });
    expect(pod.metadata.annotations).toMatchObject({
      'plimsoll.dev/need-bytes': String(8 * GiB),
      'plimsoll.dev/basis': 'estimated',
    });
  });

  it('keeps what it states itself, and says so', async () => {
    const resources = {
      limits: { 'nvidia.com/gpu': 1, 'nvidia.com/gpumem': '4096', memory: '2Gi' },
    };
    const { pod, warnings } = await ask(reviewOf(size, { resources }));
    expect(pod.spec.containers[1].resources).toMatchObject({
      limits: resources.limits,
      requests: { cpu: '2', 'nvidia.com/gpumem': '4096' },
    });
    expect(pod.spec.containers[1].resources.requests).not.toHaveProperty('memory');
    expect(warnings).toEqual(['plimsoll: nvidia.com/gpumem stays 4096; the estimate says 20480']);
  });

  it.each([
    { 'plimsoll.dev/estimate': 'much' },
    { 'plimsoll.dev/estimate': '{"model": "/etc/passwd"}' },
    { 'plimsoll.dev/estimate': '{"script": "/srv/x.py"}' },
    { 'plimsoll.dev/estimate': '{"model": "gpt2", "method": "trace"}' },
    { 'plimsoll.dev/estimate': '{' },
    { ...size, 'plimsoll.dev/container': 'other' },
    { ...size, 'plimsoll.dev/gpus': 'two' },
  ])('passes unchanged with a warning where it cannot be understood: %j', async (annotations) => {
    const { allowed, steps, warnings } = await ask(reviewOf(annotations));
    expect([allowed, steps, warnings.length]).toEqual([true, undefined, 1]);
    expect(warnings[0].length).toBeLessThanOrEqual(250);
    const strict = await ask(reviewOf(annotations), 'hami', true);
    expect(strict).toMatchObject({ allowed: false, status: { code: 400 } });
    expect(strict.status.message).toMatch(/^plimsoll: /);
  });

  it('is none: no annotation, an update, another kind', async () => {
    const plain = Object(reviewOf(size));
    const changed = (change: object) => ({ ...plain, request: { ...plain.request, ...change } });
    for (const review of [
      reviewOf({}),
      changed({ operation: 'UPDATE' }),
      changed({ kind: { group: 'apps', version: 'v1', kind: 'Deployment' } }),
    ]) {
      expect(await ask(review, 'hami', true)).toMatchObject({ allowed: true, steps: undefined });
    }
  });
});

describe('an AdmissionReview', () => {
  it.each([
    [{}, /not of the kind AdmissionReview/],
    [[], /not of the kind/],
    [
      { kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1beta1' },
      /"admission.k8s.io\/v1beta1"/,
    ],
    [{ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1', request: {} }, /no request.uid/],
  ])('%j is refused with the reason', (value, fact) => {
    expect(() => readReview(value)).toThrow(fact);
  });

  it('can be broken anywhere: it is refused, or the pod passes', async () => {
    const texts = fc.oneof(
      fc.constantFrom('20GiB', '{"batch": 8}', '{"batch": []}', '[]'),
      fc.string(),
    );
    const annotations = fc.dictionary(
      fc.constantFrom(
        'plimsoll.dev/estimate',
        'plimsoll.dev/gpus',
        'plimsoll.dev/container',
        '__proto__',
      ),
      fc.oneof(texts, fc.jsonValue()),
    );
    const resources = fc.oneof(
      fc.jsonValue(),
      fc.record({
        limits: fc.dictionary(fc.constantFrom('nvidia.com/gpu', 'memory'), fc.jsonValue()),
      }),
    );
    const object = fc.oneof(
      fc.jsonValue(),
      fc.record({
        metadata: fc.oneof(
          fc.jsonValue(),
          fc.record({ annotations, labels: fc.jsonValue(), ownerReferences: fc.jsonValue() }),
        ),
        spec: fc.oneof(
          fc.jsonValue(),
          fc.record({ containers: fc.array(fc.record({ resources, env: fc.jsonValue() })) }),
        ),
      }),
    );
    const before = faults.length;
    await fc.assert(
      fc.asyncProperty(object, fc.constantFrom('hami', 'kai', 'none'), async (pod, sharing) => {
        const review = Object(reviewOf({}));
        const sent = { ...review, request: { ...review.request, object: pod } };
        const { response } = Object(
          await answerReview(
            readReview(JSON.parse(JSON.stringify(sent))),
            {
              sharing,
              strict: false,
              estimate: () =>
                Promise.reject(new Failure({ kind: 'input', code: 'x', fact: 'x', next: 'x' })),
              fault: (error) => faults.push(error),
            },
            10,
          ),
        );
        expect(response.allowed).toBe(true);
      }),
    );
    expect(faults.slice(before)).toEqual([]);
  });
});
