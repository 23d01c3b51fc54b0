import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { homeFolder } from './home-folder.js';

describe('homeFolder', () => {
  it('is what the variable names, or a folder in the home of the user', () => {
    expect(homeFolder({ PLIMSOLL_HOME: '/srv/state' }, '/u')).toBe('/srv/state');
    expect(homeFolder({ PLIMSOLL_HOME: 'state' }, '/u')).toBe(resolve('state'));
    expect(homeFolder({}, '/u')).toBe('/u/.plimsoll');
  });

  it('takes an empty variable for none', () => {
    expect(homeFolder({ PLIMSOLL_HOME: '' }, '/u')).toBe('/u/.plimsoll');
  });
});
