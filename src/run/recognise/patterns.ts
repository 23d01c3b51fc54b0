import { parseBytes } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import type { OutOfMemory } from '../types.js';

type Figures = Partial<Pick<OutOfMemory, 'askedBytes' | 'freeBytes' | 'totalBytes'>>;

interface Pattern {
  readonly kind: string;
  readonly says: RegExp;
  /** Lines that look like it and are none. */
  readonly unless?: RegExp;
  readonly figures?: (line: string) => Figures;
}

/** Prefixes of a worker's lines by launchers: `[rank0]: `, `(pid=7) `, `0: `. */
export const linePrefix = /^(?:\s*(?:\[[\w :.-]{1,40}\]:?|\([\w -]{1,30}pid=\d+[^)]{0,40}\))\s*)+/;

/** A line without one of these words matches no pattern: most output is passed over by it. */
export const candidate =
  /memory|alloc|oom\b|oom[-_]kill|hbm|cuda failure|kIOGPU|primitive|_STATUS_|CUFFT_/i;

/**
 * Patterns of out-of-memory messages. The first match wins, so special ones stand before general
 * ones. The corpus beside this file has the wording by version.
 */
export const patterns: readonly Pattern[] = [
  {
    kind: 'tensorflow',
    says: /OOM when allocating tensor with shape\[/,
    figures: (line) => {
      const match = /shape\[([\d,]{1,100})\] and type (\w{1,20})/.exec(line);
      return { askedBytes: tensorBytes(match?.[1], match?.[2]) };
    },
  },
  {
    kind: 'jax',
    says: /RESOURCE_EXHAUSTED|Resource exhausted: Out of memory/,
    // The same word is any quota of gRPC; and an allocator that goes on with less says so.
    unless: /^(?!.*(?:memory|allocat))|not a failure|quota|rate limit/i,
    figures: (line) => ({
      askedBytes: amount(
        (/allocat\w*(?: request for)? (\d{1,15}) ?bytes/i.exec(line) ??
          /\((\d{1,15})B\)/.exec(line) ??
          /allocat\w* ([\d.]{1,12} ?[KMGT]i?B)/i.exec(line))?.[1],
      ),
    }),
  },
  {
    kind: 'cupy',
    says: /^cupy(?:\.\w+)*\.OutOfMemoryError: Out of memory allocating/,
    figures: (line) => ({
      askedBytes: amount(/allocating ([\d,]{1,20}) bytes/.exec(line)?.[1]?.replaceAll(',', '')),
    }),
  },
  {
    kind: 'llama.cpp',
    says: /allocating [\d.]+ MiB on device \d+: \w+ failed: out of memory|(?:ggml_\w+|alloc_tensor_range|llama_\w+|graph_reserve): .*(?:failed to allocate|insufficient memory|unable to allocate|Device memory allocation of size)|CUDA error 2 at \S{1,80}: out of memory|kIOGPUCommandBufferCallbackErrorOutOfMemory/,
    // It does without pinned memory where it gets none.
    unless: /pinned memory/,
    figures: (line) => ({
      askedBytes: amount(
        (/allocating ([\d.]+ MiB)/.exec(line) ??
          /attempted to allocate ([\d.]+ MB)/.exec(line) ??
          /(?:buffer|allocation) of size (\d{1,15})/.exec(line))?.[1],
      ),
    }),
  },
  { kind: 'cublas', says: /CUBLAS_STATUS_ALLOC_FAILED|HIPBLAS_STATUS_ALLOC_FAILED/ },
  { kind: 'cufft', says: /(?:CU|HIP)FFT_ALLOC_FAILED/ },
  { kind: 'cusolver', says: /CUSOLVER_STATUS_ALLOC_FAILED/ },
  { kind: 'cusparse', says: /(?:CU|HIP)SPARSE_STATUS_ALLOC_FAILED/ },
  {
    kind: 'cudnn',
    says: /CUDNN_STATUS_(?:SUBLIBRARY_)?ALLOC_FAILED|CUDNN_STATUS_\w*DEVICE_ALLOCATION_FAILED/,
  },
  {
    kind: 'hip',
    says: /HIP out of memory\. Tried to allocate|HIP error: (?:out of memory|hipErrorOutOfMemory)/,
    figures: torchFigures,
  },
  { kind: 'cuda', says: /CUDA out of memory\. Tried to allocate/, figures: torchFigures },
  {
    kind: 'mps',
    says: /MPS backend out of memory/,
    figures: (line) => ({
      ...torchFigures(line),
      totalBytes: amount(/max allowed: ([\d.]+ [KMGT]?i?B)/.exec(line)?.[1]),
    }),
  },
  { kind: 'xpu', says: /XPU out of memory\. Tried to allocate/, figures: torchFigures },
  {
    kind: 'cuda-driver',
    says: /CUDA(?: driver)? error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|Cuda failure (?:\d+ )?'out of memory'|Triton Error \[(?:CUDA|HIP)\]: out of memory|^Error out of memory at line \d{1,6} in file \S/,
    // TensorFlow's pool asks for less after this one, and goes on.
    unless: /failed to allocate .{1,60} from device: CUDA_ERROR_OUT_OF_MEMORY/,
  },
  {
    kind: 'pytorch-cpu',
    says: /DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|unable to mmap \d+ bytes from file .{0,200}: Cannot allocate memory \(12\)/,
    figures: (line) => ({
      askedBytes: amount(/(?:tried to allocate|unable to mmap) (\d{1,15}) bytes/.exec(line)?.[1]),
    }),
  },
  { kind: 'mkl', says: /\bMKL\b.{0,80}(?:Not enough memory|[Ii]nsufficient memory)/ },
  {
    // As PyTorch raises it, at the end of a traceback.
    kind: 'pytorch-cpu',
    says: /^RuntimeError: std::bad_alloc\s*$/,
  },
  {
    kind: 'slurm',
    // The limit of a job or a step was passed, on this node or on another.
    says: /^(?:slurmstepd|srun)(?:-[\w.-]{1,64})?: error: .{0,200}(?:oom[-_ ]?kill|Out Of Memory|OUT_OF_MEMORY|[Ee]xceeded (?:\w+ )?memory limit)/,
  },
  { kind: 'vllm', says: /No available memory for the cache blocks/ },
  {
    kind: 'python',
    // At the start of the line, as a traceback ends: a line of source is indented.
    says: /^(?:\w+\.)*_?(?:Array)?MemoryError(?::|$)|^(?:Blocking)?(?:IO|OS)Error: \[Errno 12\] Cannot allocate memory/,
    figures: (line) => ({
      askedBytes: amount(/Unable to allocate ([\d.]+ [KMGT]?iB)/.exec(line)?.[1]),
    }),
  },
  {
    kind: 'node',
    says: /JavaScript heap out of memory|RangeError: Array buffer allocation failed|Fatal (?:process|JavaScript) (?:out of memory|invalid size error)|\[?ERR_WORKER_OUT_OF_MEMORY/,
  },
  {
    kind: 'java',
    says: /java\.lang\.OutOfMemoryError/,
  },
  {
    kind: 'native',
    says: /^(?:terminate called after throwing an instance of 'std::bad_alloc'|\s*what\(\):\s+std::bad_alloc)|^fatal error: runtime: (?:cannot allocate memory|out of memory)|^runtime: out of memory|^memory allocation of \d+ bytes failed/,
    figures: (line) => ({
      askedBytes: amount(/^memory allocation of (\d{1,15}) bytes/.exec(line)?.[1]),
    }),
  },
];

/**
 * Messages of libraries without workspace, which have other causes, too: they mean out of memory
 * only with other evidence that memory was short.
 */
export const unsurePatterns: readonly Pattern[] = [
  { kind: 'cudnn', says: /CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)/ },
  { kind: 'cublas', says: /CUBLAS_STATUS_NOT_INITIALIZED/ },
  { kind: 'cusolver', says: /CUSOLVER_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)/ },
  { kind: 'cufft', says: /CUFFT_INTERNAL_ERROR/ },
  {
    kind: 'onednn',
    says: /^RuntimeError: could not (?:create|execute) an? (?:[\w-]+ ){0,10}?(?:primitive|memory object)/,
  },
];

/** PyTorch's own words, of today and of before 2.1. */
function torchFigures(line: string): Figures {
  const size = String.raw`([\d.]{1,12} [KMGT]?i?B|[\d.]{1,12} bytes)`;
  const find = (before: string, after: string) =>
    amount(new RegExp(before + size + after).exec(line)?.[1]);
  const total = find('total capacity of ', '');
  const free = find('of which ', ' is free');
  const allowed = find('', ' allowed');
  return {
    askedBytes: find('Tried to allocate ', ''),
    freeBytes: free === 'unknown' ? find('already allocated; ', ' free') : free,
    // A process that was given a share of the card has no more than that.
    totalBytes:
      allowed === 'unknown'
        ? total === 'unknown'
          ? find('; ', ' total capacity')
          : total
        : allowed,
  };
}

/**
 * A size as programs print it in their errors: `96.00 MiB`, `512. MiB`, `1.03GiB`, `8589934592`.
 *
 * @example
 * amount('96.00 MiB'); // 100663296
 */
export function amount(text: string | undefined): Known<number> {
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\.?\s*([KMGT]?)(i?)(?:B|bytes?)?$/i.exec(
    text?.trim() ?? '',
  );
  if (match === null) return 'unknown';
  // These programs mean 1024 also where they write GB.
  const unit = match[2] === '' ? 'B' : `${match[2]}iB`;
  return parseBytes(`${match[1]}${unit}`);
}

const elementBytes: Readonly<Record<string, number>> = {
  double: 8,
  int64: 8,
  complex64: 8,
  float: 4,
  int32: 4,
  half: 2,
  bfloat16: 2,
  int16: 2,
  int8: 1,
  uint8: 1,
  bool: 1,
};

/** The bytes of a tensor by its shape and type, as TensorFlow names them. */
export function tensorBytes(shape: string | undefined, type: string | undefined): Known<number> {
  const size = elementBytes[type ?? ''];
  if (shape === undefined || size === undefined) return 'unknown';
  const bytes = shape.split(',').reduce((product, edge) => product * Number(edge), size);
  return Number.isSafeInteger(bytes) ? bytes : 'unknown';
}
