import { expect, it } from 'vitest';
import { loginCode } from './login-link.js';

it('is found in the fragment of a link, and nowhere else', () => {
  expect(loginCode('#login=ab_C-9')).toBe('ab_C-9');
  for (const hash of ['', '#', '#jobs', '#login=', '#login=a b', '#job/login=x']) {
    expect(loginCode(hash)).toBeUndefined();
  }
});
