import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { checkText, checkVariables, type ProcessBytes } from './not-utf-8.js';

const latin = Buffer.from('caf\xE9', 'latin1');
const list = (...parts: readonly (string | Buffer)[]) =>
  Buffer.concat(parts.map((part) => Buffer.concat([Buffer.from(part), Buffer.from([0])])));

function bytes(given: Partial<Record<keyof ProcessBytes, Buffer>>): ProcessBytes {
  return {
    words: () => given.words,
    variables: () => given.variables,
    folder: () => given.folder,
  };
}

function failureOf(work: () => void): Pick<Failure, 'code' | 'fact'> | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof Failure) return { code: error.code, fact: error.fact };
    throw error;
  }
}

describe('text that is not UTF-8', () => {
  const io = { environment: {}, folder: '/work' };

  it('is refused in arguments, with its bytes', () => {
    const words = list('node', 'plimsoll', 'run', latin);
    const found = failureOf(() => checkText(['run', 'caf\uFFFD'], io, bytes({ words })));
    expect(found?.code).toBe('not-utf-8');
    expect(found?.fact).toContain(String.raw`"caf\xE9"`);
  });

  it('is refused in the current folder', () => {
    const folder = Buffer.concat([Buffer.from('/data/'), latin]);
    const here = { environment: {}, folder: '/data/caf\uFFFD' };
    expect(failureOf(() => checkText([], here, bytes({ folder })))?.code).toBe('not-utf-8');
  });

  it('is refused in variables of ours and in those that are passed on, not in others', () => {
    const variables = list('A=1', Buffer.concat([Buffer.from('B='), latin]));
    const environment = { A: '1', B: 'caf\uFFFD' };
    const given = bytes({ variables });
    expect(failureOf(() => checkText([], { environment, folder: '/' }, given))).toBeUndefined();
    const passed = (names: readonly string[]) =>
      failureOf(() => checkVariables(environment, (name) => names.includes(name), given))?.code;
    expect([passed(['A']), passed(['A', 'B'])]).toEqual([undefined, 'not-utf-8']);
    const home = list(Buffer.concat([Buffer.from('PLIMSOLL_HOME='), latin]));
    const ours = { environment: { PLIMSOLL_HOME: 'caf\uFFFD' }, folder: '/' };
    expect(failureOf(() => checkText([], ours, bytes({ variables: home })))?.code).toBe(
      'not-utf-8',
    );
  });

  it('is told from a text that holds the replacement character', () => {
    const words = list('node', 'plimsoll', 'a\uFFFD');
    expect(failureOf(() => checkText(['a\uFFFD'], io, bytes({ words })))).toBeUndefined();
  });

  it('cannot be told where the system shows no bytes', () => {
    expect(failureOf(() => checkText(['a\uFFFD'], io, bytes({})))).toBeUndefined();
  });
});
