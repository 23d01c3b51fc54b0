// `npm run fuzz -- [rounds]`: the property tests with new random inputs each round, 10 rounds unless
// told otherwise. `npm test` tries the same inputs each time; here is where new ones are found.
import { readdirSync, readFileSync } from 'node:fs';
import { ensureInstalled } from './setup.mjs';
import { root, run, tool } from './steps.mjs';

const rounds = Number(process.argv[2] ?? 10);
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error('How many rounds? Such as: npm run fuzz -- 10');
  process.exit(2);
}
await ensureInstalled();
const files = ['src', 'test']
  .flatMap((folder) => testsIn(`${root}${folder}`))
  .filter((path) => readFileSync(path, 'utf8').includes("from 'fast-check'"));
console.log(`${files.length} files with property tests, ${rounds} rounds.`);
for (let round = 1; round <= rounds; round += 1) {
  const { code, output } = await run(tool('vitest', 'run', ...files), {
    env: { ...process.env, PLIMSOLL_FUZZ: '1' },
  });
  console.log(`Round ${round}: ${code === 0 ? 'nothing found' : 'FOUND SOMETHING'}`);
  if (code !== 0) {
    console.log(output);
    process.exit(code);
  }
}

function testsIn(folder) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => `${folder}/${path}`);
}
