import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deployFolder } from './deploy-files.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll container '));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The script with a stand-in for the server; `onLine` hears each line that it prints. */
function start(server: string, onLine: (line: string, script: { kill(): void }) => void) {
  const program = join(folder, 'plimsoll');
  writeFileSync(program, `#!/bin/sh\n${server}\n`);
  chmodSync(program, 0o755);
  const script = spawn('/bin/sh', [join(deployFolder, 'container-start.sh'), '--port', '8000'], {
    env: { PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`, FOLDER: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  script.stdout.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter((one) => one !== '')) {
      lines.push(line);
      onLine(line, { kill: () => script.kill('SIGTERM') });
    }
  });
  return new Promise<{ code: number | null; lines: readonly string[] }>((resolve) => {
    script.once('close', (code) => resolve({ code, lines }));
  });
}

describe('deploy/container-start.sh', () => {
  it('hands its options on, and starts a server again that was killed', async () => {
    const server = [
      'echo "started $*"',
      'if [ ! -e "$FOLDER/once" ]; then : > "$FOLDER/once"; kill -9 $$; fi',
      'exit 0',
    ].join('\n');
    const { code, lines } = await start(server, () => {});
    expect(lines).toEqual(['started serve --port 8000', 'started serve --port 8000']);
    expect(code).toBe(0);
  });

  it('stops when it is asked to, once the server has', async () => {
    const server = "trap 'echo asked; exit 0' TERM\necho ready\nwhile :; do sleep 0.05; done";
    const { code, lines } = await start(server, (line, script) => {
      if (line === 'ready') script.kill();
    });
    expect(lines).toEqual(['ready', 'asked']);
    expect(code).toBe(0);
  });

  it.each([2, 3])('does not try again what cannot work: exit code %i', async (exitCode) => {
    const { code, lines } = await start(`echo started\nexit ${exitCode}`, () => {});
    expect(lines).toEqual(['started']);
    expect(code).toBe(exitCode);
  });
});
