import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { killWhen, useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();

/** The most layers that are taken: every estimate of it is many seconds of work. */
function deep(): string {
  const path = join(command.folder(), 'deep.json');
  const sizes = { hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 2000 };
  writeFileSync(path, JSON.stringify({ model_type: 'llama', ...sizes }));
  return path;
}

const request = (model: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model, batch: 8, seq: 1024, gpu: 'h100', method: 'formula' }),
});

describe('a heavy estimate', () => {
  it('does not hold up the other answers of a server, and ends with its client', async () => {
    const serving = await useHome(command).serve();
    const order: string[] = [];
    const gone = new AbortController();
    const heavy = serving
      .ask('/estimate', { ...request(deep()), signal: gone.signal })
      .then(({ status }) => order.push(`heavy ${status}`))
      .catch(() => order.push('heavy left'));
    for (let count = 0; count < 20; count += 1) {
      const { status } = await serving.ask('/jobs');
      order.push(`light ${status}`);
    }
    gone.abort();
    await heavy;
    expect(order).toEqual([...Array(20).fill('light 200'), 'heavy left']);
    // Its place is free again: those who come later do not wait for abandoned work.
    const path = join(command.folder(), 'small.json');
    writeFileSync(path, JSON.stringify({ model_type: 'gpt2', n_layer: 2 }));
    expect((await serving.ask('/estimate', request(path))).status).toBe(200);
  });

  it('is refused where a config asks for a billion layers, and the server goes on', async () => {
    const serving = await useHome(command).serve();
    const path = join(command.folder(), 'swin.json');
    writeFileSync(path, JSON.stringify({ model_type: 'swin', depths: [1e9, 2, 18, 2] }));
    const answer = await serving.ask('/estimate', request(path));
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain('1000000022 layers in all; at most 2000 are taken');
    expect((await serving.ask('/healthz')).ok).toBe(true);
  });

  it.each([
    ['estimate', []],
    ['plan', ['--memory', '80GiB']],
  ])('plimsoll %s is interrupted at once', async (name, more) => {
    const sizes = ['--batch', '8', '--seq', '1024', '--gpu', 'h100', '--method', 'formula'];
    const path = deep();
    const watched = {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(announce)}`,
    };
    const ended = await command.run([name, path, ...sizes, ...more], {
      environment: watched,
      onOutput: killWhen(({ stderr }) => stderr.includes('working'), 'SIGINT'),
    });
    expect(ended).toMatchObject({ stdout: '', exitCode: 130 });
  });
});

/** Says so once a thread has its first task; it takes minutes for it. */
const announce = `
import { isMainThread, parentPort } from 'node:worker_threads';
if (!isMainThread) parentPort.once('message', () => process.stderr.write('working'));`;
