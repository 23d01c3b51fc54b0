// Makes the calculator: one folder with a page that needs no server, at build/calculator or at the
// folder that is named. Usage: node scripts/calculator.mjs [FOLDER]
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { root } from './steps.mjs';

const source = `${root}web/calculator/`;

/** From a web server: what was loaded once is there without a network. */
const offline = (version) => `const name = 'plimsoll-calculator-${version}';
addEventListener('install', (event) => {
  event.waitUntil(caches.open(name).then((cache) => cache.addAll(['./', './index.html'])));
  skipWaiting();
});
addEventListener('activate', (event) => {
  const old = caches.keys().then((names) =>
    Promise.all(names.filter((one) => one.startsWith('plimsoll-calculator-') && one !== name).map((one) => caches.delete(one))),
  );
  event.waitUntil(old.then(() => clients.claim()));
});
addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET') return;
  event.respondWith(caches.match(event.request, { ignoreSearch: true }).then((kept) => kept ?? fetch(event.request)));
});
`;

const kB = (bytes) => `${Math.round(bytes / 1000)} kB`;

/** A program or a text that cannot end the element that it stands in. */
function inElement(text) {
  return text.replaceAll(/<(?=\/script|!--)/gi, String.raw`\x3C`);
}

async function made() {
  const { outputFiles } = await build({
    entryPoints: [`${source}main.tsx`, `${source}worker.ts`, `${source}style.css`],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.jsonl': 'text' },
    outdir: source,
    write: false,
    legalComments: 'none',
    logLevel: 'warning',
  });
  return (end) => outputFiles.find(({ path }) => path.endsWith(end))?.text ?? '';
}

/** Writes the page into a folder; answers its bytes, packed and not. */
export async function makeCalculator(folder) {
  const textOf = await made();
  const text = (id, program) =>
    `<script type="text/plain" id="${id}">${inElement(program)}</script>\n`;
  const scripts = [
    text('worker', textOf('worker.js')),
    `<script>${inElement(textOf('main.js'))}</script>`,
  ].join('');
  const html = readFileSync(`${source}index.html`, 'utf8')
    .replace('<!-- style -->', () => `<style>${textOf('style.css')}</style>`)
    .replace('<!-- scripts -->', () => scripts);
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/index.html`, html);
  writeFileSync(
    `${folder}/offline.js`,
    offline(createHash('sha256').update(html).digest('hex').slice(0, 12)),
  );
  return {
    bytes: Buffer.byteLength(html),
    gzip: gzipSync(html, { level: 9 }).length,
    brotli: brotliCompressSync(html).length,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = resolve(process.argv[2] ?? `${root}build/calculator`);
  const { bytes, gzip, brotli } = await makeCalculator(folder);
  process.stdout.write(
    `${folder}/index.html: ${kB(bytes)}, ${kB(gzip)} as gzip, ${kB(brotli)} as brotli. Open it in a browser.\n`,
  );
}
