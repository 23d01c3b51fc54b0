import { spawn } from 'node:child_process';

/** Only where somebody can see it. */
export function openPage(address) {
  const { DISPLAY, WAYLAND_DISPLAY, CI } = process.env;
  const hasScreen = process.platform === 'darwin' || DISPLAY || WAYLAND_DISPLAY;
  if (!hasScreen || CI || !process.stdout.isTTY || process.argv.includes('--no-open')) return;
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(opener, [address], { stdio: 'ignore', detached: true });
  child.on('error', () => console.log('  (no program was found to open it with)'));
  child.unref();
}
