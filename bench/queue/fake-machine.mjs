// GPUs and programs that only exist here: a job holds what it was promised until it is told to end.
const GiB = 2 ** 30;
const totalBytes = 80 * GiB;

const rescan = () => Promise.resolve({ appeared: [], vanished: [] });

export function fakeMachine(gpus) {
  const runs = new Map();
  /** `onRead` is called when a device was read, `onStart` when a run begins. */
  const machine = {
    discovery: discovery(),
    engine: engine(),
    onRead() {},
    onStart() {},
    endOldest,
  };
  return machine;

  function endOldest() {
    const [[id, { listener }]] = runs;
    runs.delete(id);
    const at = new Date().toISOString();
    listener({ type: 'finished', at, outcome: 'succeeded', exitCode: 0 });
  }

  function processesOn(deviceId) {
    return [...runs.values()]
      .filter(({ order }) => order.devices.includes(deviceId))
      .map(({ pid, order }) => ({ pid, name: 'fake', usedBytes: order.memoryBytes ?? GiB }));
  }

  function discovery() {
    const devices = Array.from({ length: gpus }, (_, index) => device(`gpu:${index}`));
    return { devices, notes: [], rescan, close() {} };
  }

  function device(id) {
    const unknown = { uuid: 'unknown', driver: 'unknown' };
    const simulated = { source: 'simulated', provenance: 'simulated' };
    return {
      info: { id, kind: 'gpu', name: 'NVIDIA H100 80GB HBM3', ...simulated, ...unknown },
      read() {
        const usedBytes = processesOn(id).reduce((sum, one) => sum + one.usedBytes, 0);
        const freeBytes = totalBytes - usedBytes;
        machine.onRead();
        return { totalBytes, usedBytes, freeBytes, utilizationPercent: 'unknown' };
      },
      processes: () => Promise.resolve(processesOn(id)),
    };
  }

  function engine() {
    let pid = 0;
    return {
      openRun(order, listener) {
        pid += 1;
        runs.set(order.id, { order, listener, pid });
        machine.onStart();
        return { stop() {}, release() {} };
      },
      use() {
        const byPid = new Map([...runs].map(([id, run]) => [run.pid, id]));
        return { knows: () => true, runOf: (of) => byPid.get(of), hostBytes: () => 0 };
      },
      forget: (id) => runs.delete(id),
      close() {},
    };
  }
}
