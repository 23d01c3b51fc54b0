import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jobOf, jobVariables } from './job-of.js';

const variables = (text: string) => jobVariables(Buffer.from(text.replaceAll(' ', '\0')));
const pod = '0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-';
const uid = '3c54a1f0_8d0a_4a3b_9a70_1f0e6a1b2c3d';

describe('the job of a process', () => {
  it.each([
    ['SLURM_JOB_ID=4711 SLURM_JOB_NAME=train SLURM_PROCID=1 RANK=3', '', 'slurm 4711 train 3'],
    ['SLURM_JOB_ID=1', '0::/system.slice/slurmstepd.scope/job_4711/step_0', 'slurm 4711  none'],
    ['SLURM_JOB_ID=1 SLURM_PROCID=7', '', 'slurm 1  7'],
    ['RAY_JOB_ID=02000000', '', 'ray 02000000  none'],
    ['PLIMSOLL_JOB_ID=bert PLIMSOLL_JOB_ENGINE=kubernetes RANK=0', '', 'kubernetes bert  0'],
    ['PLIMSOLL_RUN_ID=r1 SLURM_JOB_ID=2', '', 'slurm 2  none'],
    ['PLIMSOLL_RUN_ID=r1', '', 'run r1  none'],
    [
      'HOSTNAME=bert-abc',
      `${pod}pod${uid}.slice/cri-containerd-1.scope`,
      `kubernetes ${uid} bert-abc none`,
    ],
    ['RANK=x SLURM_JOB_ID=5', '', 'slurm 5  none'],
    ['RANK=3 TORCHELASTIC_RUN_ID=bert MASTER_ADDR=n1 PLIMSOLL_RUN_ID=r', '', 'torch bert  3'],
    ['RANK=1 TORCHELASTIC_RUN_ID=none MASTER_ADDR=n1 MASTER_PORT=29500', '', 'torch n1:29500  1'],
    ['RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500', '', 'torch here:29500  1'],
    ['RANK=1 MASTER_ADDR=localhost PLIMSOLL_RUN_ID=r', '', 'run r  1'],
    ['RANK=1 MASTER_ADDR=bert-0 MASTER_PORT=1', `${pod}pod${uid}.slice/x`, 'torch bert-0:1  1'],
    ['MASTER_ADDR=n1 MASTER_PORT=29500 SLURM_JOB_ID=2', '', 'slurm 2  none'],
  ])('%s %s', (environment, cgroups, expected) => {
    const job = jobOf(variables(environment), cgroups, 'here');
    expect(`${job?.engine} ${job?.id} ${job?.name} ${job?.rank}`).toBe(
      expected.replaceAll('_', '-'),
    );
  });

  it('is none where nothing names one', () => {
    const one = jobOf(variables('HOME=/x HOSTNAME=n1 RANK=1'), '0::/user.slice', 'here');
    expect(one).toBeUndefined();
    expect(jobOf(new Map(), undefined, 'here')).toBeUndefined();
  });

  it.each([
    ['RANK=3 WORLD_SIZE=16 SLURM_PROCID=1 SLURM_NTASKS=2', '3 16'],
    ['SLURM_PROCID=1 SLURM_NTASKS=2 WORLD_SIZE=16', '1 2'],
    ['OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8', '5 8'],
    ['RANK=3 WORLD_SIZE=many', '3 none'],
    ['WORLD_SIZE=4', 'none none'],
  ])('has a rank and their number, both of one launcher: %s', (environment, expected) => {
    const job = jobOf(variables(`SLURM_JOB_ID=1 ${environment}`), '', 'here');
    expect(`${job?.rank} ${job?.worldSize}`).toBe(expected);
  });

  it('has the limit that it was given', () => {
    expect(jobOf(variables('PLIMSOLL_RUN_ID=r PLIMSOLL_MEMORY_BYTES=123'), '', '')).toMatchObject({
      reservedBytes: 123,
    });
    expect(jobOf(variables('PLIMSOLL_RUN_ID=r PLIMSOLL_MEMORY_BYTES=1e9'), '', '')).toMatchObject({
      reservedBytes: 'unknown',
    });
  });

  it('reads any bytes, and keeps no long value', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.string(), (bytes, cgroups) => {
        const prefix = Buffer.from('SLURM_JOB_ID=');
        const found = jobVariables(Buffer.concat([prefix, bytes]));
        expect([...found.values()].every((value) => value.length <= 128)).toBe(true);
        jobOf(found, cgroups, 'here');
      }),
    );
    expect(variables(`SLURM_JOB_ID=${'9'.repeat(5000)}`).get('SLURM_JOB_ID')).toHaveLength(128);
  });
});
