import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { webAnswer } from '../app.js';
import { openRaw, startTestServer } from '../server-for-tests.js';
import { readWebFiles } from './web-files.js';

let outer: string;
let folder: string;
beforeEach(() => {
  outer = mkdtempSync(join(tmpdir(), 'plimsoll-web-'));
  folder = join(outer, 'web');
  mkdirSync(join(folder, 'assets'), { recursive: true });
  writeFileSync(join(outer, 'secret.txt'), 'SECRET');
  writeFileSync(join(folder, 'index.html'), '<!doctype html>page');
  writeFileSync(join(folder, 'icon.svg'), '<svg/>');
  writeFileSync(join(folder, 'assets/index-3f2a91bc.js'), 'script');
  writeFileSync(join(folder, 'assets/index-3f2a91bc.js.br'), 'BROTLI');
  writeFileSync(join(folder, 'assets/index-3f2a91bc.js.gz'), 'GZIP');
  writeFileSync(join(folder, 'assets/index-3f2a91bc.js.map'), 'map');
  symlinkSync(join(outer, 'secret.txt'), join(folder, 'linked.txt'));
});
afterEach(() => rmSync(outer, { recursive: true, force: true }));

describe('the page', () => {
  it('is served with types and caching that fit', async () => {
    await using server = await serverWithPage();
    const page = await server.ask('/');
    expect(await page.text()).toBe('<!doctype html>page');
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'self'");
    const script = await server.ask('/assets/index-3f2a91bc.js', {
      headers: { 'accept-encoding': 'identity' },
    });
    expect(await script.text()).toBe('script');
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect((await server.ask('/icon.svg')).headers.get('cache-control')).toBe('no-cache');
    expect((await server.ask('/', { method: 'HEAD' })).status).toBe(200);
    const posted = await server.ask('/', { method: 'POST' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET']);
  });

  it('is not sent again to one that has it', async () => {
    await using server = await serverWithPage();
    const etag = (await server.ask('/')).headers.get('etag') ?? '';
    const again = await server.ask('/', { headers: { 'if-none-match': `"x", W/${etag}` } });
    expect([again.status, await again.text()]).toEqual([304, '']);
    const other = await server.ask('/', { headers: { 'if-none-match': '"x"' } });
    expect(other.status).toBe(200);
  });

  it('goes out packed to whom that suits', async () => {
    const files = await readWebFiles(folder);
    const packingFor = (accepted: string | undefined) => {
      const headers = { 'accept-encoding': accepted };
      const answer = webAnswer(files, '/assets/index-3f2a91bc.js', headers);
      if (answer === undefined || answer === 'sent') return 'none';
      return answer.headers['content-encoding'] ?? 'plain';
    };
    expect(packingFor('gzip, deflate, br')).toBe('br');
    expect(packingFor('gzip')).toBe('gzip');
    expect(packingFor('br;q=0, gzip;q=0.5')).toBe('gzip');
    expect(packingFor('br ; q=0 , gzip')).toBe('gzip');
    expect(packingFor(undefined)).toBe('plain');
    // Takes longer than any test may where each space is looked at from every other one.
    expect(packingFor(`a${' '.repeat(300_000)}b, gzip`)).toBe('gzip');
  });

  it('is only what is there: no maps, no packed files by name, nothing behind links', async () => {
    expect([...(await readWebFiles(folder)).keys()].toSorted()).toEqual([
      '/',
      '/assets/index-3f2a91bc.js',
      '/icon.svg',
    ]);
    expect((await readWebFiles(join(folder, 'nowhere'))).size).toBe(0);
  });

  it('is no way out of its folder, whatever the path', async () => {
    await using server = await serverWithPage();
    const piece = fc.constantFrom(
      '..',
      '%2e%2e',
      '.',
      '',
      '%2f',
      '%5c',
      '\\',
      'assets',
      'secret.txt',
      '%00',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async (pieces) => {
        const path = `/${[...pieces, 'secret.txt'].join('/')}`;
        const raw = openRaw(
          server.port,
          `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
        );
        const text = await raw.closed;
        expect(text).toMatch(/^HTTP\/1\.1 40[04] /);
        expect(text).not.toContain('SECRET');
      }),
      { numRuns: 60 },
    );
  });
});

it('says so where there is no page', async () => {
  const server = await startTestServer();
  const answer = await server.ask('/');
  expect(answer.status).toBe(404);
  expect(await answer.json()).toMatchObject({ error: { code: 'no-page' } });
  await server.close();
});

async function serverWithPage() {
  const server = await startTestServer({ webFolder: folder });
  return { ...server, [Symbol.asyncDispose]: () => server.close() };
}
