import { join } from 'node:path';
import { listKernelFolder, type Roots, readKernelFile } from '../kernel-files.js';

const nvidiaVendor = '0x10de';

/**
 * Returns the files in which the NVIDIA driver shows itself: they change when the driver is loaded
 * or unloaded, when a GPU comes or goes, and when MIG instances are made or destroyed.
 */
export function nvidiaFiles(roots: Roots): readonly string[] {
  const driver = join(roots.proc, 'driver/nvidia');
  const capabilities = join(driver, 'capabilities');
  const version = readKernelFile(join(driver, 'version'))?.split('\n')[0];
  return [
    ...(version === undefined ? [] : [`version ${version}`]),
    ...listKernelFolder(join(driver, 'gpus')).map((name) => `gpu ${name}`),
    ...listKernelFolder(capabilities).flatMap((gpu) =>
      listKernelFolder(join(capabilities, gpu, 'mig')).map((name) => `mig ${gpu} ${name}`),
    ),
    // WSL has no /dev/nvidia0 but reaches the card through dxg; Jetson boards have nvhost.
    ...listKernelFolder(roots.dev)
      .filter((name) => /^(?:nvidia|nvhost-ctrl|dxg$)/.test(name))
      .map((name) => `node ${name}`),
    ...listKernelFolder(join(roots.dev, 'nvidia-caps')).map((name) => `cap ${name}`),
  ];
}

/** Whether an NVIDIA card is on the bus, with or without a driver. */
export function hasNvidiaCard(roots: Roots): boolean {
  const bus = join(roots.sys, 'bus/pci/devices');
  return listKernelFolder(bus).some((address) => {
    if (readKernelFile(join(bus, address, 'vendor'))?.trim() !== nvidiaVendor) return false;
    // 0x03....: a display or 3D controller, not the card's sound or USB part.
    return readKernelFile(join(bus, address, 'class'))?.startsWith('0x03') ?? false;
  });
}

/** Display cards as the kernel names them: `card0`, without connectors (`card0-DP-1`). */
export function drmCards(roots: Roots): readonly string[] {
  return listKernelFolder(join(roots.sys, 'class/drm')).filter((name) => /^card\d+$/.test(name));
}
