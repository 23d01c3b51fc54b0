// `npm run test:engines`: real clusters of other schedulers on this machine, on loopback alone: Debian's
// Slurm, Ray by pip, and Prometheus for the fleet, each in build/engines, one after another. Everything
// that it starts is ended again, also after Ctrl-C. PLIMSOLL_TEST_KILLS=20 kills each kind of process so often.
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { runWithDaemons, tool } from './steps.mjs';

await ensureInstalled();
await ensureBuilt();
process.exitCode = await runWithDaemons(
  tool('vitest', 'run', '--config', 'test/engines/vitest.config.ts', ...process.argv.slice(2)),
);
