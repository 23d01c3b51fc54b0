import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import type { ClusterOrder } from '../cluster.js';
import { type GpuSharing, jobManifest, jobName } from './job-manifest.js';
import { kubectlHere, kubernetesEngine } from './kubernetes-engine.js';

const order: ClusterOrder = {
  name: 'train.py',
  command: ['python', 'train.py'],
  cwd: '/',
  gpus: 1,
  needBytes: 30 * GiB,
  basis: 'stated',
  estimatedBytes: 'unknown',
  workloadKey: 'k',
  batch: 'unknown',
  maxAttempts: 1,
  options: [],
};

function podOf(change: Partial<ClusterOrder>, sharing: GpuSharing) {
  const manifest = jobManifest({
    order: { ...order, ...change },
    id: 'train-1',
    image: 'pytorch:1',
    sharing,
    environment: { SEED: '1' },
  });
  const { spec, metadata } = Object(manifest).spec.template;
  return {
    ...spec,
    annotations: metadata.annotations,
    limits: spec.containers[0].resources.limits,
  };
}

describe('a job of Kubernetes', () => {
  it('asks for memory of a GPU as HAMi, KAI or a plain cluster reads it', () => {
    expect(podOf({}, 'hami').limits).toEqual({
      'nvidia.com/gpu': '1',
      'nvidia.com/gpumem': '30720',
    });
    expect(podOf({ gpus: 2 }, 'kai')).toMatchObject({
      schedulerName: 'kai-scheduler',
      annotations: { 'gpu-memory': '30720', 'gpu-fraction-num-devices': '2' },
      limits: {},
    });
    expect(podOf({ gpus: 4 }, 'none').limits).toEqual({ 'nvidia.com/gpu': '4' });
    expect(podOf({ gpus: 0 }, 'hami').limits).toEqual({ memory: '30720Mi' });
  });

  it.each(['hami', 'kai', 'none'] as const)(
    'asks %s for whole GPUs where nothing is known',
    (way) => {
      const pod = podOf({ needBytes: 'unknown' }, way);
      expect([pod.limits, pod.annotations]).toEqual([{ 'nvidia.com/gpu': '1' }, {}]);
    },
  );

  it('runs once, as the exporter knows it', () => {
    const { restartPolicy, containers } = podOf({}, 'none');
    expect(restartPolicy).toBe('Never');
    expect(containers[0]).toMatchObject({ image: 'pytorch:1', command: ['python', 'train.py'] });
    expect(containers[0].env).toEqual([
      { name: 'SEED', value: '1' },
      { name: 'PLIMSOLL_JOB_ENGINE', value: 'kubernetes' },
      { name: 'PLIMSOLL_JOB_ID', value: 'train-1' },
      { name: 'PLIMSOLL_JOB_NAME', value: 'train.py' },
      { name: 'PLIMSOLL_MEMORY_BYTES', value: String(30 * GiB) },
    ]);
  });

  it('has a name that Kubernetes takes, whatever it is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        expect(jobName(name, '3f2a9c')).toMatch(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
      }),
    );
  });
});

describe('the engine kubernetes', () => {
  const common = { namespace: 'ml', sharing: 'hami', environment: {} } as const;

  it('hands kubectl what it shows, and refuses what kubectl does better', async () => {
    const sent: string[] = [];
    const kubectl = (words: readonly string[], input: string) => {
      sent.push(words.join(' '), input);
      return Promise.resolve('');
    };
    const engine = kubernetesEngine({ ...common, image: 'x:1', kubectl });
    expect(JSON.parse(await engine.preview(order))).toMatchObject({
      kind: 'Job',
      metadata: { namespace: 'ml' },
    });
    expect(sent).toEqual([]);
    const job = await engine.submit(order);
    expect(sent[0]).toBe('create -f -');
    expect(JSON.parse(sent[1] ?? '')).toMatchObject({ metadata: { name: job.id } });
    await expect(engine.cancel(job.id)).rejects.toMatchObject({
      code: 'use-kubectl',
      next: `Run: kubectl delete job ${job.id}`,
    });
  });

  it('says what is missing: an image, kubectl', async () => {
    const kubectl = kubectlHere({ PATH: '/nowhere' });
    const without = kubernetesEngine({ ...common, image: undefined, kubectl });
    await expect(without.preview(order)).rejects.toMatchObject({ code: 'no-image' });
    const engine = kubernetesEngine({ ...common, image: 'x:1', kubectl });
    await expect(engine.submit(order)).rejects.toMatchObject({ code: 'no-kubectl' });
  });
});
