/** Variables of a job that must not reach the next one: Slurm sets them anew. */
const ofThisJob =
  /^(SLURM_|SLURMD_|SBATCH_|SRUN_|PMI|CUDA_VISIBLE_DEVICES$|ROCR_VISIBLE_DEVICES$|GPU_DEVICE_ORDINAL$|ZE_AFFINITY_MASK$|TMPDIR$)/;

/** The environment in which a job submits its successor. */
export function environmentOfSuccessor(
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name === 'SLURM_CONF' || !ofThisJob.test(name)),
  );
}
