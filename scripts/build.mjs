// Makes dist: the library by tsc (with its types), the command by esbuild (one start, few files),
// the dashboard by vite.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';
import { build as buildPage } from 'vite';
import { program, programs } from './esbuild-program.mjs';
import { packPage } from './pack-page.mjs';
import { sourcesHash } from './sources-hash.mjs';
import { root, run, tool } from './steps.mjs';

async function makeDist() {
  // Taken before the work: an edit made meanwhile leaves a stamp that calls for the next build.
  const hash = sourcesHash();
  const fresh = `${root}build/dist-${process.pid}`;
  const old = `${root}build/dist-old-${process.pid}`;
  mkdirSync(`${root}build`, { recursive: true });
  try {
    const library = await run(tool('tsc', '-p', 'tsconfig.build.json', '--outDir', fresh));
    if (library.code !== 0) {
      process.stderr.write(library.output);
      return library.code;
    }
    await build({
      ...program,
      absWorkingDir: root,
      entryPoints: programs,
      outdir: `${fresh}/cli`,
      // Commands load their own code when they run, so that each starts fast.
      splitting: true,
    });
    await buildPage({
      configFile: `${root}web/vite.config.ts`,
      logLevel: 'warn',
      build: { outDir: `${fresh}/web` },
    });
    packPage(`${fresh}/web`);
    writeFileSync(`${fresh}/.stamp`, hash);
    // Two renames instead of writing in place: nobody finds a dist half from before.
    try {
      renameSync(`${root}dist`, old);
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
    renameSync(fresh, `${root}dist`);
    return 0;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(old, { recursive: true, force: true });
  }
}

process.exitCode = await makeDist();
