import { Empty } from '../../parts/empty.js';
import { Lede } from '../../parts/lede.js';
import { WindowChoice } from '../../parts/window-choice.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { AlertList } from './alert-list.js';
import { DeviceCard } from './device-card.js';
import { Queue } from './queue.js';

/** The whole machine: devices, then jobs. */
export function Overview() {
  const ids = useStore(board, ({ devices }) => devices.map(({ id }) => id).join(' '));
  const loaded = useStore(board, (now) => now.loaded);
  const devices = ids === '' ? [] : ids.split(' ');
  return (
    <>
      <h1 class="aside">Overview</h1>
      <Lede />
      <section aria-labelledby="devices-title">
        <div class="heading">
          <h2 id="devices-title">Devices</h2>
          <WindowChoice />
        </div>
        {loaded && devices.length === 0 && (
          <Empty title="No device was found." command="plimsoll devices">
            The server sees neither a GPU nor the host's memory. This says what was tried:
          </Empty>
        )}
        <div class={devices.length === 1 ? 'devices single' : 'devices'}>
          {devices.map((id) => (
            <DeviceCard key={id} id={id} />
          ))}
        </div>
      </section>
      <AlertList />
      <Queue />
    </>
  );
}
