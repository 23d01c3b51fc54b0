import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { amdgpuProvider } from './amdgpu/provider.js';
import { eitherProvider, simulatedProvider } from './discover.js';

describe('eitherProvider', () => {
  it('takes the second only while the first has nothing', async () => {
    await using tree = await makeFakeTree({
      'sys/class/drm/card0/device/vendor': '0x1002\n',
      'sys/class/drm/card0/device/uevent': 'PCI_SLOT_NAME=0000:03:00.0\n',
    });
    const first = amdgpuProvider({ roots: tree.roots });
    const either = eitherProvider(first, simulatedProvider({ play: 'steady' }));
    const before = await either.fingerprint();
    const fallen = await either.list();
    expect(fallen.devices.map(({ info }) => info.source)).toEqual(['simulated']);
    expect(fallen.notes).toEqual((await first.list()).notes);
    expect(fallen.notes).toHaveLength(1);
    await tree.write({ 'sys/class/drm/card0/device/mem_info_vram_total': '5\n' });
    expect(await either.fingerprint()).not.toBe(before);
    expect((await either.list()).devices.map(({ info }) => info.source)).toEqual(['amdgpu']);
    either.close();
  });
});
