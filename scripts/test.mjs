// `npm test`: all the set-up, then every check. All of them run even when an early one fails.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { ensureInstalled } from './setup.mjs';
import { root, run, script, tool } from './steps.mjs';

const results = `${root}build/vitest.json`;

/** The tests come last, so that their own summary stands near the end; they need the build. */
const checks = [
  { name: 'format', what: 'biome: format, order of imports', command: tool('biome', 'check') },
  { name: 'lint', what: 'oxlint: type-aware rules', command: tool('oxlint', '--type-aware') },
  { name: 'types', what: 'tsc: types', command: tool('tsc', '-p', 'tsconfig.json') },
  { name: 'build', what: 'library and command', command: script('build.mjs') },
  { name: 'unused', what: 'knip: files, exports, packages', command: tool('knip') },
  { name: 'package', what: 'publint: what npm would get', command: tool('publint', '--strict') },
  {
    name: 'tests',
    what: 'vitest',
    command: tool(
      'vitest',
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${results}`,
    ),
    show: true,
  },
];

await ensureInstalled();
mkdirSync(`${root}build`, { recursive: true });
rmSync(results, { force: true });

// A program that reads our output wants words, not colours.
const { FORCE_COLOR: _, ...rest } = process.env;
const env = process.stdout.isTTY ? process.env : { ...rest, NO_COLOR: '1' };

const failed = [];
for (const { name, what, command, show = false } of checks) {
  process.stdout.write(`${name} (${what})${show ? '\n' : ' ... '}`);
  const { code, output } = await run(command, { show, env });
  if (code !== 0) failed.push(name);
  if (!show) console.log(code === 0 ? 'ok' : `FAILED, exit code ${code}\n${output}`);
}

console.log(
  failed.length === 0
    ? `All ${checks.length} checks passed: ${checks.map(({ name }) => name).join(', ')}.`
    : `${failed.length} of ${checks.length} checks failed: ${failed.join(', ')}. Their output is above.`,
);
console.log(countOfTests());
process.exitCode = failed.length === 0 ? 0 : 1;

/** One plain line with the true counts, for programs that read it. */
function countOfTests() {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(
      readFileSync(results, 'utf8'),
    );
    // A file that breaks before its first test counts as one failure.
    const broken = testResults.filter(
      ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
    ).length;
    return `${numPassedTests} passed, ${numFailedTests + broken} failed`;
  } catch {
    return '0 passed, 1 failed';
  }
}
