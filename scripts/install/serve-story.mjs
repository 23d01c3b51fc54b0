// A server, a job, its log, its end: through the installed command.
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** @returns {Promise<string | undefined>} what went wrong, in words */
export async function serveStory(command, { cwd, env, runTool }) {
  const server = spawn(command, ['serve', '--port', '0', '--json'], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(server, 'exit');
  try {
    await Promise.race([
      once(server.stdout, 'data'),
      ended.then(() => Promise.reject(new Error('"plimsoll serve" ended at once'))),
    ]);
    const steps = [
      [
        ['submit', '--memory', '64MiB', '--gpus', '0', '--follow', '--', 'echo', 'hello'],
        /^hello$/m,
      ],
      [['jobs', '--json'], /"succeeded"/],
    ];
    for (const [args, wanted] of steps) {
      const done = await runTool(args);
      if (done.code !== 0 || !wanted.test(done.stdout)) {
        return `plimsoll ${args.join(' ')}: exit code ${done.code}: ${done.output.trim()}`;
      }
    }
    return undefined;
  } catch (error) {
    return error.message;
  } finally {
    server.kill('SIGTERM');
    await ended;
  }
}
