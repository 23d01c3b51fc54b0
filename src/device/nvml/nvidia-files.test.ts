import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { drmCards, hasNvidiaCard, nvidiaFiles } from './nvidia-files.js';

describe('nvidiaFiles', () => {
  it('is empty on a machine without NVIDIA', async () => {
    await using tree = await makeFakeTree({ 'dev/null': '', 'proc/driver/rtc': '' });
    expect(nvidiaFiles(tree.roots)).toEqual([]);
  });

  it.each([
    ['a GPU', 'proc/driver/nvidia/gpus/0000:01:00.0/information'],
    ['a node', 'dev/nvidia0'],
    ['a MIG instance', 'proc/driver/nvidia/capabilities/gpu0/mig/gi1/access'],
    ['a capability', 'dev/nvidia-caps/nvidia-cap12'],
    ['WSL', 'dev/dxg'],
  ])('changes with %s', async (_, path) => {
    await using tree = await makeFakeTree({ 'proc/driver/nvidia/version': 'NVRM version: 580\n' });
    const before = nvidiaFiles(tree.roots);
    await tree.write({ [path]: '' });
    expect(nvidiaFiles(tree.roots)).not.toEqual(before);
  });
});

describe('hasNvidiaCard', () => {
  it('sees a display controller of NVIDIA, not its sound part, nor another maker', async () => {
    await using tree = await makeFakeTree({
      'sys/bus/pci/devices/0000:01:00.1/vendor': '0x10de\n',
      'sys/bus/pci/devices/0000:01:00.1/class': '0x040300\n',
      'sys/bus/pci/devices/0000:02:00.0/vendor': '0x1002\n',
      'sys/bus/pci/devices/0000:02:00.0/class': '0x030000\n',
    });
    expect(hasNvidiaCard(tree.roots)).toBe(false);
    await tree.write({
      'sys/bus/pci/devices/0000:01:00.0/vendor': '0x10de\n',
      'sys/bus/pci/devices/0000:01:00.0/class': '0x030200\n',
    });
    expect(hasNvidiaCard(tree.roots)).toBe(true);
  });
});

describe('drmCards', () => {
  it('leaves connectors and render nodes out', async () => {
    await using tree = await makeFakeTree({
      'sys/class/drm/card0/dev': '',
      'sys/class/drm/card0-DP-1/status': '',
      'sys/class/drm/renderD128/dev': '',
    });
    expect(drmCards(tree.roots)).toEqual(['card0']);
  });
});
