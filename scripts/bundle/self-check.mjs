// Does what the person on the closed machine will do: unpack, run, with nothing of ours around.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../steps.mjs';
import { fail } from './trouble.mjs';

/** @returns {Promise<string>} what was checked, in words */
export async function selfCheck(file, name, arch, version) {
  if (process.platform !== 'linux' || process.arch !== arch) {
    return `not run: this machine is ${process.platform} ${process.arch}`;
  }
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-check-'));
  try {
    const unpacked = await run(['tar', ['-xJf', file, '-C', folder]]);
    if (unpacked.code !== 0) fail('check-failed', unpacked.output.trim(), 'Make it again.');
    const launcher = join(folder, name, 'plimsoll');
    const result = await run([launcher, ['--version']], { env: {} });
    if (result.code !== 0 || result.output !== `${version}\n`) {
      fail('check-failed', `--version said: ${result.output.trim()}`, 'Unpack it and look.');
    }
    const seen = await run([launcher, ['devices', '--json']], { env: {} });
    if (seen.code !== 0 || !Array.isArray(parsed(seen.stdout).devices)) {
      fail('check-failed', `devices --json said: ${seen.output.trim()}`, 'Unpack it and look.');
    }
    return 'run here: ok';
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
