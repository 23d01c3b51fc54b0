import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { startTestServer } from '../server-for-tests.js';
import { ReadingPulse } from './status-routes.js';

describe('the pulse of readings', () => {
  it('is missed after a minute, and after longer where readings are seldom', async () => {
    const clock = createVirtualClock();
    const pulse = new ReadingPulse(() => clock.seconds());
    await clock.advance(1000);
    expect(pulse.stillSeconds()).toBeUndefined();
    pulse.heard();
    await clock.advance(60);
    expect(pulse.stillSeconds()).toBeUndefined();
    await clock.advance(1);
    expect(pulse.stillSeconds()).toBe(61);
    pulse.heard();
    await clock.advance(300);
    expect(pulse.stillSeconds()).toBeUndefined();
    await clock.advance(10);
    expect(pulse.stillSeconds()).toBe(310);
  });

  it('decides on health', async () => {
    const clock = createVirtualClock();
    const server = await startTestServer({ clock });
    server.daemon.publish({ type: 'devices', epochMs: 0, devices: [] });
    expect((await server.ask('/healthz')).status).toBe(200);
    await clock.advance(100);
    const still = await server.ask('/healthz');
    expect([still.status, await still.json()]).toMatchObject([
      503,
      { status: 'failing', why: 'No device was read for 100 seconds.' },
    ]);
    server.daemon.publish({ type: 'devices', epochMs: 0, devices: [] });
    expect((await server.ask('/healthz')).status).toBe(200);
    await server.close();
  });
});
