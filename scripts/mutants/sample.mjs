// A checker of Stryker that lets through a sample of the mutants, the same ones each time. Those left
// out count as mutants that do not compile, and so not in the score.
import { createHash } from 'node:crypto';
import { relative } from 'node:path';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';

class Sample {
  async init() {}

  async check(mutants) {
    const answers = mutants.map((mutant) => [
      mutant.id,
      isTaken(mutant)
        ? { status: 'passed' }
        : { status: 'compileError', reason: 'not in the sample' },
    ]);
    return Object.fromEntries(answers);
  }
}

function isTaken({ fileName, mutatorName, location: { start, end }, replacement }) {
  const every = Number(process.env.MUTANTS_EVERY);
  const place = `${start.line}:${start.column}-${end.line}:${end.column}`;
  const text = [process.env.MUTANTS_SEED, relative(process.cwd(), fileName), mutatorName, place, replacement];
  return createHash('sha256').update(text.join('\0')).digest().readUInt32BE() % every === 0;
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Checker, 'sample', Sample)];
