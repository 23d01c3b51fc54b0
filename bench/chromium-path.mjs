import { execFileSync } from 'node:child_process';

/** The Chromium of this machine; without one a benchmark ends with exit code 3. */
export function chromiumPath() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']) {
    try {
      return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
    } catch {
      // The next name.
    }
  }
  console.error('There is no Chromium here. Install it, for example with "apt install chromium".');
  return process.exit(3);
}
