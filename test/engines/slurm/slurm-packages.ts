import { debianPackages } from '../debian-packages.js';

/** Debian's Slurm; answers the folder that it was unpacked into. */
export function slurmPackages(): string {
  return debianPackages({
    folder: 'slurm',
    wanted: [
      'slurmctld',
      'slurmd',
      'slurm-client',
      'slurm-wlm-basic-plugins',
      'munge',
      'libmunge2',
    ],
    proof: 'usr/bin/sbatch',
  });
}
