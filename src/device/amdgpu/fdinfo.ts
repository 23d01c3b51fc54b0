/** What one open file of a GPU says about the memory behind it. */
export interface DrmClient {
  /** The same for all copies of one open file, in whichever process. */
  readonly clientId: string;
  readonly pciAddress: string;
  readonly vramBytes: number;
}

const units: Readonly<Record<string, number>> = { '': 1, KiB: 1024, MiB: 1024 ** 2 };

/**
 * Reads /proc/PID/fdinfo/N of a GPU file. Undefined when it is not amdgpu's, or tells no memory
 * (kernels before 5.14 do not).
 *
 * @example
 * parseDrmClient(
 *   'drm-driver:\tamdgpu\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t64 KiB\n',
 * ); // { clientId: '3', pciAddress: '0000:03:00.0', vramBytes: 65536 }
 */
export function parseDrmClient(text: string): DrmClient | undefined {
  const values = new Map<string, string>();
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) values.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  const clientId = values.get('drm-client-id');
  const pciAddress = values.get('drm-pdev')?.toLowerCase();
  // The newer key counts what is shared too; the older one is what the process is charged for.
  const vramBytes = parseSize(values.get('drm-memory-vram') ?? values.get('drm-total-vram'));
  if (values.get('drm-driver') !== 'amdgpu') return undefined;
  if (clientId === undefined || pciAddress === undefined || vramBytes === undefined)
    return undefined;
  return { clientId, pciAddress, vramBytes };
}

function parseSize(text: string | undefined): number | undefined {
  const match = /^(\d{1,15})(?: (KiB|MiB))?$/.exec(text ?? '');
  const bytes = match === null ? Number.NaN : Number(match[1]) * (units[match[2] ?? ''] ?? 1);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
