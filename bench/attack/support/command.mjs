// A command of the owner in a place, to its end.
import { spawn } from 'node:child_process';
import { command } from './place.mjs';

/** The exit code; `never` where it did not end in that time. */
export function runCommand(place, words, withinMs) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [command, ...words], {
      cwd: place.folder,
      env: place.environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data) => {
      stdout += String(data);
    });
    child.stderr.on('data', (data) => {
      stderr += String(data);
    });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, withinMs);
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code: isLate ? 'never' : (code ?? signal), stdout, stderr });
    });
  });
}
