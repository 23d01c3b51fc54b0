// The programs of a snapshot's page, made from web/snapshot, as a module that the command imports by
// a name: esbuild and vitest each have a plugin for it.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const name = 'plimsoll:snapshot-page';
const folder = fileURLToPath(new URL('../web/snapshot/', import.meta.url));

/** The programs as texts: `page` draws, `worker` holds the recording. */
export async function snapshotScripts() {
  const { outputFiles } = await build({
    entryPoints: [`${folder}page.ts`, `${folder}worker.ts`],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    outdir: folder,
    write: false,
    legalComments: 'none',
    logLevel: 'warning',
  });
  const textOf = (file) => outputFiles.find(({ path }) => path.endsWith(file))?.text ?? '';
  return { page: textOf('page.js'), worker: textOf('worker.js') };
}

async function moduleText() {
  return `export const snapshotScripts = ${JSON.stringify(await snapshotScripts())};`;
}

export const esbuildSnapshotPage = {
  name: 'snapshot-page',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^plimsoll:snapshot-page$/ }, () => ({ path: name, namespace: name }));
    onLoad({ filter: /^/, namespace: name }, async () => ({ contents: await moduleText() }));
  },
};

/** For vitest and vite. */
export function viteSnapshotPage() {
  return {
    name: 'snapshot-page',
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    load: (id) => (id === `\0${name}` ? moduleText() : undefined),
  };
}
