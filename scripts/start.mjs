// `npm start`: all the set-up, then the live monitor of this machine, in this same process, so that
// Ctrl-C reaches it and nothing else stands between it and the terminal.
import { ensureBuilt, ensureInstalled } from './setup.mjs';

await ensureInstalled();
await ensureBuilt();

// Ctrl-C is how one leaves the monitor. npm would print an error about any exit code but 0.
process.on('exit', () => {
  if (process.exitCode === 130) process.exitCode = 0;
});

process.argv = [process.argv[0], 'plimsoll', 'monitor', ...process.argv.slice(2)];
await import('../bin/plimsoll.js');
