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
  ])('%s %s', (environment, cgroups, expected) => {
    const job = jobOf(variables(environment), cgroups);
    expect(`${job?.engine} ${job?.id} ${job?.name} ${job?.rank}`).toBe(
      expected.replaceAll('_', '-'),
    );
  });

  it('is none where nothing names one', () => {
    expect(jobOf(variables('HOME=/x HOSTNAME=n1 RANK=1'), '0::/user.slice')).toBeUndefined();
    expect(jobOf(new Map(), undefined)).toBeUndefined();
  });

  it('has the limit that it was given', () => {
    expect(jobOf(variables('PLIMSOLL_RUN_ID=r PLIMSOLL_MEMORY_BYTES=123'), '')).toMatchObject({
      reservedBytes: 123,
    });
    expect(jobOf(variables('PLIMSOLL_RUN_ID=r PLIMSOLL_MEMORY_BYTES=1e9'), '')).toMatchObject({
      reservedBytes: 'unknown',
    });
  });

  it('reads any bytes, and keeps no long value', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.string(), (bytes, cgroups) => {
        const prefix = Buffer.from('SLURM_JOB_ID=');
        const found = jobVariables(Buffer.concat([prefix, bytes]));
        expect([...found.values()].every((value) => value.length <= 128)).toBe(true);
        jobOf(found, cgroups);
      }),
    );
    expect(variables(`SLURM_JOB_ID=${'9'.repeat(5000)}`).get('SLURM_JOB_ID')).toHaveLength(128);
  });
});
