#!/usr/bin/env node
// The starter of the command. It answers --version by itself and loads nothing else for it: scripts
// ask for it often, and it must cost little more than starting Node.
import { existsSync, readFileSync } from 'node:fs';

const argv = process.argv.slice(2);
const program = new URL('../dist/cli/main.js', import.meta.url);

if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  // Nobody may be reading: `plimsoll --version | true` is no error.
  process.stdout.on('error', () => {});
  process.stdout.write(`${JSON.parse(manifest).version}\n`);
} else if (existsSync(program)) {
  if (argv[0] === 'exporter') await keepSmall();
  const { main } = await import(program.href).catch(withoutFiles);
  // Not process.exit(): what was written to a pipe must still get out.
  process.exitCode = await main(argv);
} else {
  process.stderr.write(
    'plimsoll: not-built: There is no dist/cli/main.js. Run "npm run build", or "npm start", which does it by itself.\n',
  );
  process.exitCode = 3;
}

/** With too few open files allowed, not even the program can be read; main says the same later on. */
function withoutFiles(error) {
  if (error.code !== 'EMFILE' && error.code !== 'ENFILE') throw error;
  return { main: sayTooManyFiles };
}

function sayTooManyFiles() {
  process.stderr.write(
    'plimsoll: too-many-files: No more files can be opened: the limit of open files is reached. Allow more with "ulimit -n 1024", or close other programs.\n',
  );
  return 3;
}

/**
 * The exporter lives long and does little: memory counts more than speed. Without the compiler that
 * optimizes, and with little room for new objects, it takes some 10 MB less. Set before anything runs.
 */
async function keepSmall() {
  const { setFlagsFromString } = await import('node:v8');
  for (const flag of ['--no-opt', '--no-sparkplug', '--semi-space-growth-factor=1']) {
    setFlagsFromString(flag);
  }
}
