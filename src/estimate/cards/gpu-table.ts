import { KiB, MiB } from '../../units/bytes.js';
import type { Provenance } from '../../units/known.js';

export type GpuVendor = 'nvidia' | 'amd';

/** A model of GPU, as far as it decides what fits. */
export interface Gpu {
  /** As the driver reports it, or near to it. */
  readonly name: string;
  readonly aliases: readonly string[];
  readonly vendor: GpuVendor;
  /** All of its memory, as NVML (AMD: the kernel) reports it. */
  readonly capacityBytes: number;
  /** CUDA's compute capability, such as 9.0; AMD's architecture, such as gfx942. */
  readonly capability: string;
  /** How many multiprocessors it has, where that is known: kernels are chosen by it. */
  readonly multiprocessors?: number | undefined;
  /** Memory of a PyTorch process outside its allocator: CUDA context and kernels. */
  readonly context: GpuContext;
  /** Bytes of the BLAS library's workspace for each handle and stream. */
  readonly workspaceBytes: number;
}

export interface GpuContext {
  readonly bytes: number;
  readonly lowBytes: number;
  readonly highBytes: number;
  readonly provenance: Provenance;
}

/** As PyTorch chooses them: 2 x 4 MiB + 8 x 16 KiB, and 32 MiB from Hopper on. */
const smallWorkspace = 2 * 4 * MiB + 8 * 16 * KiB;
const largeWorkspace = 32 * MiB;
const gfx94Workspace = 128 * MiB;

/**
 * By architecture. It grows with the number of kernels that PyTorch has loaded, and with the number
 * of multiprocessors. Measured is only the H200 (PyTorch 2.11, CUDA 13.0, 297 runs).
 */
const contexts = {
  measuredHopper: mebibytes(758, 630, 762, 'measured'),
  hopper: mebibytes(758, 500, 800),
  blackwell: mebibytes(760, 600, 900),
  ampere: mebibytes(430, 380, 560),
  smaller: mebibytes(360, 290, 430),
  amd: mebibytes(500, 300, 900),
};

/** The assumed context of a card with nothing known but its capacity. */
export const assumedContext: GpuContext = mebibytes(500, 290, 900);

type Row = readonly [
  name: string,
  capacityMebibytes: number,
  capability: string,
  context: GpuContext,
  aliases?: readonly string[],
];

/** Capacities are those that nvidia-smi shows with drivers from 510 on, error correction as shipped. */
const nvidia: readonly Row[] = [
  ['Tesla V100-SXM2-16GB', 16_384, '7.0', contexts.smaller, ['V100-16GB', 'V100-PCIE-16GB']],
  ['Tesla V100-SXM2-32GB', 32_768, '7.0', contexts.smaller, ['V100-32GB', 'V100-PCIE-32GB']],
  ['Tesla T4', 15_360, '7.5', contexts.smaller],
  ['NVIDIA A2', 15_356, '8.6', contexts.smaller],
  ['NVIDIA A10', 23_028, '8.6', contexts.smaller],
  ['NVIDIA A10G', 23_028, '8.6', contexts.smaller],
  ['NVIDIA A30', 24_576, '8.0', contexts.ampere],
  ['NVIDIA A40', 46_068, '8.6', contexts.smaller],
  ['NVIDIA A100-SXM4-40GB', 40_960, '8.0', contexts.ampere, ['A100-40GB', 'A100-PCIE-40GB']],
  ['NVIDIA A100-SXM4-80GB', 81_920, '8.0', contexts.ampere, ['A100-80GB', 'A100-80GB-PCIE']],
  ['NVIDIA L4', 23_034, '8.9', contexts.smaller],
  ['NVIDIA L20', 46_068, '8.9', contexts.smaller],
  ['NVIDIA L40', 46_068, '8.9', contexts.smaller],
  ['NVIDIA L40S', 46_068, '8.9', contexts.smaller],
  ['NVIDIA H100 80GB HBM3', 81_559, '9.0', contexts.hopper, ['H100', 'H100-80GB', 'H100-PCIE']],
  ['NVIDIA H100 NVL', 95_830, '9.0', contexts.hopper],
  ['NVIDIA H20', 97_871, '9.0', contexts.hopper],
  ['NVIDIA GH200 480GB', 97_871, '9.0', contexts.hopper, ['GH200', 'GH200-120GB']],
  ['NVIDIA H200', 143_771, '9.0', contexts.measuredHopper, ['H200-SXM', 'H200-141GB']],
  ['NVIDIA B200', 183_359, '10.0', contexts.blackwell],
  ['NVIDIA RTX A4000', 16_376, '8.6', contexts.smaller, ['A4000']],
  ['NVIDIA RTX A6000', 49_140, '8.6', contexts.smaller, ['A6000']],
  ['NVIDIA RTX 6000 Ada Generation', 49_140, '8.9', contexts.smaller, ['RTX 6000 Ada']],
  ['NVIDIA RTX PRO 6000 Blackwell', 97_887, '12.0', contexts.smaller, ['RTX PRO 6000']],
  ['NVIDIA GeForce RTX 3060', 12_288, '8.6', contexts.smaller, ['3060']],
  ['NVIDIA GeForce RTX 3070', 8_192, '8.6', contexts.smaller, ['3070']],
  ['NVIDIA GeForce RTX 3080', 10_240, '8.6', contexts.smaller, ['3080', '3080-10GB']],
  ['NVIDIA GeForce RTX 3080 12GB', 12_288, '8.6', contexts.smaller, ['3080-12GB']],
  ['NVIDIA GeForce RTX 3090', 24_576, '8.6', contexts.smaller, ['3090']],
  ['NVIDIA GeForce RTX 3090 Ti', 24_564, '8.6', contexts.smaller, ['3090 Ti']],
  ['NVIDIA GeForce RTX 4060', 8_188, '8.9', contexts.smaller, ['4060']],
  ['NVIDIA GeForce RTX 4060 Ti 8GB', 8_188, '8.9', contexts.smaller, ['4060 Ti 8GB']],
  ['NVIDIA GeForce RTX 4060 Ti 16GB', 16_380, '8.9', contexts.smaller, ['4060 Ti 16GB']],
  ['NVIDIA GeForce RTX 4070', 12_282, '8.9', contexts.smaller, ['4070', '4070 SUPER']],
  ['NVIDIA GeForce RTX 4070 Ti', 12_282, '8.9', contexts.smaller, ['4070 Ti']],
  ['NVIDIA GeForce RTX 4070 Ti SUPER', 16_376, '8.9', contexts.smaller, ['4070 Ti SUPER']],
  ['NVIDIA GeForce RTX 4080', 16_376, '8.9', contexts.smaller, ['4080', '4080 SUPER']],
  ['NVIDIA GeForce RTX 4090', 24_564, '8.9', contexts.smaller, ['4090']],
  ['NVIDIA GeForce RTX 5060', 8_151, '12.0', contexts.smaller, ['5060']],
  ['NVIDIA GeForce RTX 5060 Ti 8GB', 8_151, '12.0', contexts.smaller, ['5060 Ti 8GB']],
  ['NVIDIA GeForce RTX 5060 Ti 16GB', 16_311, '12.0', contexts.smaller, ['5060 Ti 16GB']],
  ['NVIDIA GeForce RTX 5070', 12_227, '12.0', contexts.smaller, ['5070']],
  ['NVIDIA GeForce RTX 5070 Ti', 16_303, '12.0', contexts.smaller, ['5070 Ti']],
  ['NVIDIA GeForce RTX 5080', 16_303, '12.0', contexts.smaller, ['5080']],
  ['NVIDIA GeForce RTX 5090', 32_607, '12.0', contexts.smaller, ['5090']],
];

/** As the makers' data sheets count them. */
const multiprocessors: Readonly<Record<string, number>> = {
  'Tesla V100-SXM2-16GB': 80,
  'Tesla V100-SXM2-32GB': 80,
  'Tesla T4': 40,
  'NVIDIA A2': 10,
  'NVIDIA A10': 72,
  'NVIDIA A10G': 80,
  'NVIDIA A30': 56,
  'NVIDIA A40': 84,
  'NVIDIA A100-SXM4-40GB': 108,
  'NVIDIA A100-SXM4-80GB': 108,
  'NVIDIA L4': 58,
  'NVIDIA L20': 92,
  'NVIDIA L40': 142,
  'NVIDIA L40S': 142,
  'NVIDIA H100 80GB HBM3': 132,
  'NVIDIA H100 NVL': 132,
  'NVIDIA H20': 78,
  'NVIDIA GH200 480GB': 132,
  'NVIDIA H200': 132,
  'NVIDIA B200': 148,
  'NVIDIA RTX A4000': 48,
  'NVIDIA RTX A6000': 84,
  'NVIDIA RTX 6000 Ada Generation': 142,
  'NVIDIA RTX PRO 6000 Blackwell': 188,
  'NVIDIA GeForce RTX 3060': 28,
  'NVIDIA GeForce RTX 3070': 46,
  'NVIDIA GeForce RTX 3080': 68,
  'NVIDIA GeForce RTX 3080 12GB': 70,
  'NVIDIA GeForce RTX 3090': 82,
  'NVIDIA GeForce RTX 3090 Ti': 84,
  'NVIDIA GeForce RTX 4060': 24,
  'NVIDIA GeForce RTX 4060 Ti 8GB': 34,
  'NVIDIA GeForce RTX 4060 Ti 16GB': 34,
  'NVIDIA GeForce RTX 4070': 46,
  'NVIDIA GeForce RTX 4070 Ti': 60,
  'NVIDIA GeForce RTX 4070 Ti SUPER': 66,
  'NVIDIA GeForce RTX 4080': 76,
  'NVIDIA GeForce RTX 4090': 128,
  'NVIDIA GeForce RTX 5060': 30,
  'NVIDIA GeForce RTX 5060 Ti 8GB': 36,
  'NVIDIA GeForce RTX 5060 Ti 16GB': 36,
  'NVIDIA GeForce RTX 5070': 48,
  'NVIDIA GeForce RTX 5070 Ti': 70,
  'NVIDIA GeForce RTX 5080': 84,
  'NVIDIA GeForce RTX 5090': 170,
};

const amd: readonly Row[] = [
  ['AMD Instinct MI210', 65_520, 'gfx90a', contexts.amd],
  ['AMD Instinct MI250X', 65_520, 'gfx90a', contexts.amd, ['MI250']],
  ['AMD Instinct MI300X', 196_592, 'gfx942', contexts.amd],
];

/** The cards that plimsoll knows; a configuration adds others. */
export const knownGpus: readonly Gpu[] = [
  ...nvidia.map((row) => gpuOf(row, 'nvidia')),
  ...amd.map((row) => gpuOf(row, 'amd')),
];

/** bf16 came with Ampere. */
const leastForBfloat16 = 8;

export function computesInBfloat16({ capability }: Pick<Gpu, 'capability'>): boolean {
  return !(Number.parseFloat(capability) < leastForBfloat16);
}

/** As PyTorch chooses it by architecture; the larger one where that is not known. */
export function workspaceBytesOf(vendor: GpuVendor, capability: string | undefined): number {
  if (vendor === 'amd') {
    return capability === undefined || /^gfx9[45]/.test(capability)
      ? gfx94Workspace
      : largeWorkspace;
  }
  const before = capability !== undefined && Number.parseFloat(capability) < 9;
  return before ? smallWorkspace : largeWorkspace;
}

function gpuOf([name, mebibytesOfAll, capability, context, aliases = []]: Row, vendor: GpuVendor) {
  return {
    name,
    aliases,
    vendor,
    capacityBytes: mebibytesOfAll * MiB,
    capability,
    multiprocessors: multiprocessors[name],
    context,
    workspaceBytes: workspaceBytesOf(vendor, capability),
  };
}

function mebibytes(
  likely: number,
  low: number,
  high: number,
  provenance: Provenance = 'estimated',
): GpuContext {
  return { bytes: likely * MiB, lowBytes: low * MiB, highBytes: high * MiB, provenance };
}
