import { expect, it } from 'vitest';
import { LoginLinks } from './login-links.js';

const codeOf = (link: string): string => /^\/#login=([\w-]{43})$/.exec(link)?.[1] ?? '';

it('opens once', () => {
  const links = new LoginLinks(() => 0);
  const code = codeOf(links.make('user:ada'));
  expect([links.use('made-up'), links.use(code), links.use(code)]).toEqual([
    undefined,
    'user:ada',
    undefined,
  ]);
});

it('ends after an hour', () => {
  let now = 0;
  const links = new LoginLinks(() => now);
  const [one, other] = [codeOf(links.make()), codeOf(links.make())];
  now = 3599;
  expect(links.use(one)).toBe('');
  now = 3600;
  expect(links.use(other)).toBeUndefined();
});

it('keeps the newest hundred', () => {
  const links = new LoginLinks(() => 0);
  const codes = Array.from({ length: 101 }, () => codeOf(links.make()));
  expect([links.use(codes[0] ?? ''), links.use(codes[1] ?? '')]).toEqual([undefined, '']);
});
