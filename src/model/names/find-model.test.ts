import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findModel, publishedName } from './find-model.js';

let folder: string;
let server: Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-names-'));
});
afterEach(async () => {
  rmSync(folder, { recursive: true, force: true });
  await new Promise((done) => (server === undefined ? done(0) : server.close(done)));
  server = undefined;
});

const place = (more: Record<string, string> = {}) => ({
  environment: { PLIMSOLL_HOME: join(folder, 'home'), HF_HOME: join(folder, 'hf'), ...more },
});

/** A hub that answers every request so; the requests it got. */
async function hub(answer: (response: ServerResponse) => void) {
  const requests: IncomingMessage[] = [];
  const listening = createServer((request, response) => {
    requests.push(request);
    answer(response);
  });
  server = listening;
  await new Promise<void>((done) => listening.listen(0, '127.0.0.1', done));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on a port
  const { port } = listening.address() as AddressInfo;
  return { requests, endpoint: `http://127.0.0.1:${port}` };
}

describe('findModel', () => {
  it('writes the config of the catalogue where Python can read it', async () => {
    const { source, notes } = await findModel('llama-3-8b', place());
    if (source.kind !== 'path') throw new Error('it has a config');
    expect(JSON.parse(readFileSync(join(source.path, 'config.json'), 'utf8'))).toMatchObject({
      model_type: 'llama',
      hidden_size: 4096,
    });
    expect(notes.join(' ')).toContain('catalogue');
    expect(publishedName(source.path, join(folder, 'home'))).toBe('meta-llama/Meta-Llama-3-8B');
  });

  it('prefers the local cache, in the revision that main names', async () => {
    const main = 'a'.repeat(40);
    const repository = join(folder, 'hf/hub/models--openai-community--gpt2');
    for (const revision of ['b'.repeat(40), main]) {
      mkdirSync(join(repository, 'snapshots', revision), { recursive: true });
      writeFileSync(join(repository, 'snapshots', revision, 'config.json'), '{}');
    }
    mkdirSync(join(repository, 'refs'));
    writeFileSync(join(repository, 'refs/main'), main);
    for (const name of ['gpt2', 'openai-community/gpt2']) {
      const { source } = await findModel(name, place());
      expect(source).toEqual({ kind: 'path', path: join(repository, 'snapshots', main) });
    }
    const named = publishedName(join(repository, 'snapshots', main), join(folder, 'home'));
    expect(named).toBe('openai-community/gpt2');
  });

  it('takes the number in an unknown name, and says which was probably meant', async () => {
    const { source, notes } = await findModel('lama-3-8b', place());
    expect(source).toEqual({ kind: 'parameters', parameters: 8e9 });
    expect(notes[0]).toContain('Did you mean');
    await expect(findModel('bananas', place())).rejects.toMatchObject({ code: 'unknown-model' });
  });

  it.each([
    ['resnet50', 'torchvision:resnet50'],
    ['ResNet-50', 'torchvision:resnet50'],
    ['regnet_y_1_6gf', 'torchvision:regnet_y_1_6gf'],
    ['vit-h-14', 'torchvision:vit_h_14'],
  ])('takes %s for a classifier of torchvision', async (name, meant) => {
    const next = expect.stringContaining(`Did you mean ${meant}?`);
    await expect(findModel(name, place())).rejects.toMatchObject({ code: 'unknown-model', next });
  });

  it('downloads config.json alone, with the token, and finds it again without the hub', async () => {
    const config = '{"model_type":"gpt2","n_layer":3}';
    const { requests, endpoint } = await hub((response) => response.end(config));
    const there = place({ HF_ENDPOINT: endpoint, HF_TOKEN: 'secret' });
    const { source } = await findModel('acme/thing', { ...there, hub: true });
    if (source.kind !== 'path') throw new Error('it has a config');
    expect(readFileSync(join(source.path, 'config.json'), 'utf8')).toBe(config);
    expect(requests.map(({ url }) => url)).toEqual(['/acme/thing/resolve/main/config.json']);
    expect(requests[0]?.headers.authorization).toBe('Bearer secret');
    expect((await findModel('acme/thing', there)).source).toEqual(source);
    expect(requests).toHaveLength(1);
  });

  it('reads neither caches nor downloads where only the catalogue counts', async () => {
    const { endpoint } = await hub((response) => response.end('{"model_type":"gpt2"}'));
    const there = place({ HF_ENDPOINT: endpoint });
    await findModel('acme/thing', { ...there, hub: true });
    for (const repository of ['models--evil--link', 'models--openai-community--gpt2']) {
      const snapshot = join(folder, 'hf/hub', repository, 'snapshots', 'a'.repeat(40));
      mkdirSync(snapshot, { recursive: true });
      writeFileSync(join(snapshot, 'config.json'), 'secret');
    }
    const only = { ...there, catalogueOnly: true };
    for (const name of ['acme/thing', 'evil/link']) {
      await expect(findModel(name, only)).rejects.toMatchObject({ code: 'unknown-model' });
    }
    const { source } = await findModel('gpt2', only);
    if (source.kind !== 'path') throw new Error('it has a config');
    expect(source.path).toContain(join(folder, 'home/models/catalogue'));
  });

  it('asks no hub unless told to', async () => {
    const { requests, endpoint } = await hub((response) => response.end('{}'));
    await expect(findModel('acme/thing', place({ HF_ENDPOINT: endpoint }))).rejects.toThrow(
      'no known model',
    );
    expect(requests).toEqual([]);
  });

  it.each<readonly [string, (response: ServerResponse) => void, RegExp]>([
    ['no such model', (response) => response.writeHead(404).end(), /no config.json of that name/],
    ['a gated model', (response) => response.writeHead(401).end(), /HF_TOKEN/],
    ['a broken hub', (response) => response.writeHead(500).end(), /answered 500/],
    ['no JSON', (response) => response.end('<html>'), /not JSON/],
    ['too much', (response) => response.end('['.repeat(5_000_000)), /larger than/],
    ['a cut line', (response) => response.destroy(), /cannot be asked/],
  ])('fails with one clear error and keeps nothing: %s', async (_, answer, words) => {
    const { endpoint } = await hub(answer);
    const there = { ...place({ HF_ENDPOINT: endpoint }), hub: true };
    await expect(findModel('acme/thing', there)).rejects.toThrow(words);
    expect(() => readdirSync(join(folder, 'home/models/hub'))).toThrow(/ENOENT/);
  });

  it.each(['../etc', 'a/b/c', 'a b', 'x'.repeat(300)])('asks no hub for %s', async (name) => {
    const there = { ...place({ HF_ENDPOINT: 'http://127.0.0.1:9' }), hub: true };
    await expect(findModel(name, there)).rejects.toThrow(/no such names/);
  });

  it('refuses an endpoint that is no web address', async () => {
    const there = { ...place({ HF_ENDPOINT: 'file:///etc' }), hub: true };
    await expect(findModel('acme/thing', there)).rejects.toThrow(/HF_ENDPOINT/);
  });
});
