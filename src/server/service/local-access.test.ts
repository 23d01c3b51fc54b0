import { expect, it } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { localAccess } from './local-access.js';

it('is in the home for the owner, or where it was asked for, or where root has it for all', async () => {
  const of = async (options: object, uid: number) => {
    const access = await localAccess({ home: '/srv/plimsoll', ...options }, systemClock, uid);
    return [access?.path, access?.forAll, access?.isOptional];
  };
  expect(await of({}, 1000)).toEqual(['/srv/plimsoll/server.sock', false, true]);
  expect(await of({ socket: '/srv/a.sock' }, 1000)).toEqual(['/srv/a.sock', false, false]);
  expect(await of({ localUsers: true }, 0)).toEqual(['/run/plimsoll/server.sock', true, false]);
  expect(await of({ localUsers: true, socket: '/srv/a.sock' }, 1000)).toEqual([
    '/srv/a.sock',
    true,
    false,
  ]);
});

it('needs a path where the server is not root: others cannot reach its home', async () => {
  await expect(localAccess({ home: '/h', localUsers: true }, systemClock, 1000)).rejects.toThrow(
    '--local-users needs --socket',
  );
});
