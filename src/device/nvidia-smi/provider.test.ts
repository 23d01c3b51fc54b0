import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type FakeTree, makeFakeTree } from '../../../test/fake-tree.js';
import { GiB, MiB } from '../../units/bytes.js';
import { describeConformance } from '../conformance.suite.js';
import { DeviceLost, type DeviceProvider } from '../device.js';
import { nvidiaSmiProvider } from './provider.js';

const gpuRows = [
  '0, GPU-a, NVIDIA L4, 580.65.06, 23034, 512, 22062, 12',
  '1, GPU-b, NVIDIA L4, 580.65.06, 23034, 1024, 21550, [N/A]',
].join('\n');
const processRows = [
  'GPU-a, 100, /usr/bin/python3, 200',
  'GPU-a, 101, /usr/bin/python3, 300',
  'GPU-b, 102, [Not Found], [N/A]',
].join('\n');

/** Prints the file that the question asks for, and counts how often it was run. */
const script = `#!/bin/sh
cd "$(dirname "$0")" || exit 99
echo run >> runs
case "$1" in
  --query-gpu=index,uuid,name,driver_version,memory.total,memory.used,memory.free,utilization.gpu)
    cat gpus ;;
  --query-compute-apps=gpu_uuid,pid,process_name,used_memory) cat processes ;;
  *) echo "unknown question $1"; exit 2 ;;
esac
[ "$2" = "--format=csv,noheader,nounits" ] || exit 2
exit "$(cat code)"
`;

interface FakeProgram {
  readonly tree: FakeTree;
  readonly provider: DeviceProvider;
}

async function fakeProgram(
  files: Readonly<Record<string, string>> = {},
  timeLimitMs = 20_000,
): Promise<FakeProgram> {
  const tree = await makeFakeTree({
    'bin/nvidia-smi': script,
    'bin/gpus': gpuRows,
    'bin/processes': processRows,
    'bin/code': '0',
    ...files,
  });
  await chmod(join(tree.folder, 'bin/nvidia-smi'), 0o755);
  const env = { ...process.env, PATH: `${join(tree.folder, 'bin')}:${process.env['PATH'] ?? ''}` };
  return { tree, provider: nvidiaSmiProvider({ env, roots: tree.roots, timeLimitMs }) };
}

describeConformance('nvidia-smi', async () => {
  const { tree, provider } = await fakeProgram();
  return {
    provider,
    lose: () => tree.write({ 'bin/gpus': gpuRows.split('\n')[1] ?? '' }),
    cleanUp: () => tree[Symbol.asyncDispose](),
  };
});

describe('nvidia-smi', () => {
  it('reads memory, utilization and what the devices are', async () => {
    const { tree, provider } = await fakeProgram();
    const { devices, notes } = await provider.list();
    expect(notes).toEqual([]);
    expect(devices[0]?.info).toEqual({
      id: 'gpu:0',
      kind: 'gpu',
      name: 'NVIDIA L4',
      source: 'nvidia-smi',
      provenance: 'measured',
      uuid: 'GPU-a',
      driver: '580.65.06',
    });
    expect(await devices[1]?.read()).toEqual({
      totalBytes: 23_034 * MiB,
      usedBytes: GiB,
      freeBytes: 21_550 * MiB,
      utilizationPercent: 'unknown',
    });
    await tree[Symbol.asyncDispose]();
  });

  it('gives each device its own processes', async () => {
    const { tree, provider } = await fakeProgram();
    const [first, second] = (await provider.list()).devices;
    expect(await first?.processes()).toEqual([
      { pid: 101, name: 'python3', usedBytes: 300 * MiB },
      { pid: 100, name: 'python3', usedBytes: 200 * MiB },
    ]);
    expect(await second?.processes()).toEqual([
      { pid: 102, name: 'unknown', usedBytes: 'unknown' },
    ]);
    await tree[Symbol.asyncDispose]();
  });

  it('runs the program once for devices that are read at the same time', async () => {
    const { tree, provider } = await fakeProgram();
    const { devices } = await provider.list();
    await tree.write({ 'bin/runs': '' });
    await Promise.all(devices.map(async (device) => device.read()));
    expect(await readFile(join(tree.folder, 'bin/runs'), 'utf8')).toBe('run\n');
    await tree[Symbol.asyncDispose]();
  });

  it('finds nothing and says nothing where there is no such program', async () => {
    await using tree = await makeFakeTree();
    const provider = nvidiaSmiProvider({ env: { PATH: tree.folder }, roots: tree.roots });
    expect(await provider.list()).toEqual({ devices: [], notes: [] });
  });

  it('says what the program says when it fails', async () => {
    const { tree, provider } = await fakeProgram({
      'bin/gpus': 'NVIDIA-SMI has failed because it could not talk to the driver\n',
      'bin/code': '9',
    });
    const { devices, notes } = await provider.list();
    expect(devices).toEqual([]);
    expect(notes[0]).toContain('could not talk to the driver');
    await tree[Symbol.asyncDispose]();
  });

  it('calls a GPU lost when the driver goes, and unknown when the program only fails', async () => {
    const { tree, provider } = await fakeProgram();
    const [device] = (await provider.list()).devices;
    await tree.write({ 'bin/gpus': '', 'bin/code': '1' });
    expect(await device?.read()).toEqual({
      totalBytes: 'unknown',
      usedBytes: 'unknown',
      freeBytes: 'unknown',
      utilizationPercent: 'unknown',
    });
    expect(await device?.processes()).toBe('unknown');
    await tree.write({ 'bin/code': '9' });
    await expect(Promise.resolve(device?.read())).rejects.toThrow(DeviceLost);
    await tree[Symbol.asyncDispose]();
  });

  it('stops a program that hangs', async () => {
    const { tree, provider } = await fakeProgram(
      { 'bin/nvidia-smi': '#!/bin/sh\nexec sleep 600\n' },
      100,
    );
    const { devices, notes } = await provider.list();
    expect(devices).toEqual([]);
    expect(notes[0]).toMatch(/^nvidia-smi failed: it was stopped/);
    await tree[Symbol.asyncDispose]();
  });

  it('stops a program that never stops talking', async () => {
    const { tree, provider } = await fakeProgram({
      'bin/nvidia-smi': '#!/bin/sh\nexec yes "0, GPU-a, endless"\n',
    });
    const { devices, notes } = await provider.list();
    expect(devices).toEqual([]);
    expect(notes[0]).toMatch(/^nvidia-smi failed: it was stopped/);
    await tree[Symbol.asyncDispose]();
  });
});
