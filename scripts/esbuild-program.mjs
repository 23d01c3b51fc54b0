/** Options of esbuild for a program that runs in Node from a folder with koffi beside it. */
export const program = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // It finds its native library by its own place on the disk, so it must stay a package.
  external: ['koffi'],
  // Packages written for require() ask for Node's own modules with it.
  banner: {
    js: "import { createRequire as plimsollRequire } from 'node:module'; const require = plimsollRequire(import.meta.url);",
  },
  legalComments: 'none',
  logLevel: 'warning',
};
