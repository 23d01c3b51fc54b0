import { configureGlobal } from 'fast-check';

/**
 * Every run of `npm test` tries the same inputs, so that what passed passes again and what fails can
 * be looked at. `npm run fuzz` draws new ones each time: new cases are found there.
 */
const fixedSeed = 20_261_115;

if (process.env['PLIMSOLL_FUZZ'] === undefined) configureGlobal({ seed: fixedSeed });
