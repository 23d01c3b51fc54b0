import { configureGlobal } from 'fast-check';

/**
 * Every run of `npm test` tries the same inputs, so that what passed passes again and what fails can
 * be looked at. `npm run fuzz` draws new ones each time: new cases are found there.
 */
const fixedSeed = 20_261_115;

if (process.env['PLIMSOLL_FUZZ'] === undefined) {
  // For `npm run mutants` it is enough that a property fails: no smaller input is looked for.
  const endOnFailure = process.env['MUTANTS_TESTS'] !== undefined;
  configureGlobal({ seed: fixedSeed, endOnFailure });
}
