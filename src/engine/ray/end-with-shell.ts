import { spawn } from 'node:child_process';
import { nodeRunVariable } from '../node/supervise-run.js';

/**
 * When Ray gives a job up it kills the process group of the job's shell. Processes in sessions of their
 * own, such as the workers of torchrun, would go on beside the next start of the job. This waits until
 * the shell has ended: where the folder of the run is still there, nobody ended it, and all processes
 * that have it in their environment are killed.
 */
export function endWithShell(shell: number, home: string): void {
  const script = `while kill -s 0 ${shell}; do sleep 1; done
[ -d "$0" ] || exit 0
for round in 1 2 3; do
  for one in /proc/[0-9]*; do
    if tr '\\0' '\\n' < "$one/environ" | grep -qxF "${nodeRunVariable}=$0"; then kill -s KILL "\${one#/proc/}"; fi
  done
done
rm -rf "$0"`;
  // In a session of its own, and without the variable that it looks for.
  const watcher = spawn('sh', ['-c', script, home], {
    detached: true,
    stdio: 'ignore',
    cwd: '/',
    env: { PATH: process.env['PATH'] },
  });
  // Without it the job runs all the same.
  watcher.once('error', () => {});
  watcher.unref();
}
