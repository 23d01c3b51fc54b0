import { esbuildSnapshotPage } from './snapshot-page.mjs';

/** Options of esbuild for a program that runs in Node from a folder with koffi and SQLite beside it. */
export const program = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // They find their native library by their own place on the disk, so they must stay packages.
  external: ['koffi', '@photostructure/sqlite'],
  // Packages written for require() ask for Node's own modules with it.
  banner: {
    js: "import { createRequire as plimsollRequire } from 'node:module'; const require = plimsollRequire(import.meta.url);",
  },
  plugins: [esbuildSnapshotPage],
  legalComments: 'none',
  logLevel: 'warning',
};

/** The command, and what its threads run. */
export const programs = {
  main: 'src/cli/main.ts',
  become: 'src/run/launch/become.ts',
  'estimate-thread': 'src/estimate/thread/estimate-thread.ts',
};
