import { GiB, MiB } from '../../../units/bytes.js';

/** A message as a real program printed it, and what must be read from it. */
export interface Specimen {
  readonly from: string;
  readonly text: string;
  readonly kind: string;
  readonly askedBytes?: number;
  readonly freeBytes?: number;
  readonly totalBytes?: number;
}

const gib = (n: number) => Math.round(n * GiB);
const mib = (n: number) => Math.round(n * MiB);

export const specimens: readonly Specimen[] = [
  {
    from: 'PyTorch 2.11 with a memory fraction',
    text: 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 135.14 GiB is free. Including non-PyTorch memory, this process has 4.65 GiB memory in use. 4.00 GiB allowed; Of the allocated memory 3.93 GiB is allocated by PyTorch, and 52.97 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.',
    kind: 'cuda',
    askedBytes: mib(96),
    freeBytes: gib(135.14),
    totalBytes: gib(4),
  },
  ...[
    'slurmstepd: error: Detected 1 oom-kill event(s) in StepId=17.0. Some of your processes may have been killed by the cgroup out-of-memory handler.',
    'slurmstepd: error: Detected 1 oom_kill event in StepId=17.batch. Some of the step tasks have been OOM Killed.',
    'slurmstepd-node3: error: Job 17 exceeded memory limit (2097152 > 1048576), being killed',
    'slurmstepd: error: Exceeded step memory limit at some point.',
    'srun: error: node3: task 1: Out Of Memory',
  ].map((text) => ({ from: `Slurm: ${text.slice(0, 50)}`, text, kind: 'slurm' })),
  {
    from: 'PyTorch 2.3',
    text: 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 23.69 GiB of which 1.12 GiB is free. Process 4711 has 22.56 GiB memory in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 210.23 MiB is reserved by PyTorch but unallocated.',
    kind: 'cuda',
    askedBytes: gib(2),
    freeBytes: gib(1.12),
    totalBytes: gib(23.69),
  },
  {
    from: 'PyTorch 1.12',
    text: 'RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity; 612.33 MiB already allocated; 14.75 MiB free; 622.00 MiB reserved in total by PyTorch)',
    kind: 'cuda',
    askedBytes: mib(20),
    freeBytes: mib(14.75),
    totalBytes: gib(31.75),
  },
  {
    from: 'PyTorch 2.0, nothing free',
    text: 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 166.00 MiB (GPU 0; 8.00 GiB total capacity; 6.93 GiB already allocated; 0 bytes free; 7.22 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.',
    kind: 'cuda',
    askedBytes: mib(166),
    freeBytes: 0,
    totalBytes: gib(8),
  },
  {
    from: 'PyTorch under torchrun',
    text: '[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 3 has a total capacity of 79.15 GiB of which 12.19 MiB is free.',
    kind: 'cuda',
    askedBytes: mib(512),
    freeBytes: mib(12.19),
    totalBytes: gib(79.15),
  },
  {
    from: 'PyTorch on ROCm',
    text: 'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 23.98 GiB of which 2.61 GiB is free. Of the allocated memory 20.34 GiB is allocated by PyTorch, and 120.10 MiB is reserved by PyTorch but unallocated.',
    kind: 'hip',
    askedBytes: gib(4),
    freeBytes: gib(2.61),
    totalBytes: gib(23.98),
  },
  { from: 'ROCm driver', text: 'RuntimeError: HIP error: out of memory', kind: 'hip' },
  {
    from: 'a driver call while others fill the card',
    text: 'RuntimeError: CUDA error: out of memory',
    kind: 'cuda-driver',
  },
  {
    from: 'PyTorch with expandable segments',
    text: 'RuntimeError: CUDA driver error: out of memory',
    kind: 'cuda-driver',
  },
  {
    from: 'NCCL',
    text: "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'",
    kind: 'cuda-driver',
  },
  {
    from: 'PyCUDA',
    text: 'pycuda._driver.MemoryError: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY',
    kind: 'cuda-driver',
  },
  {
    from: 'cuBLAS',
    text: 'RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`',
    kind: 'cublas',
  },
  {
    from: 'cuDNN through PyTorch',
    text: 'RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED',
    kind: 'cudnn',
  },
  {
    from: 'cuDNN through TensorFlow',
    text: '2020-10-05 10:12:01.1: E tensorflow/stream_executor/cuda/cuda_dnn.cc:328] Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED',
    kind: 'cudnn',
  },
  {
    from: 'cuDNN 9',
    text: 'RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED',
    kind: 'cudnn',
  },
  {
    from: 'PyTorch on the CPU',
    text: `RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)`,
    kind: 'pytorch-cpu',
    askedBytes: 40_000_000_000,
  },
  {
    from: 'PyTorch, weights that are mapped',
    text: 'RuntimeError: unable to mmap 26034005 bytes from file <model.safetensors>: Cannot allocate memory (12)',
    kind: 'pytorch-cpu',
    askedBytes: 26_034_005,
  },
  {
    from: 'PyTorch on Windows',
    text: 'RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate 1048576 bytes. Buy new RAM!',
    kind: 'pytorch-cpu',
    askedBytes: MiB,
  },
  {
    from: 'PyTorch on a Mac',
    text: 'RuntimeError: MPS backend out of memory (MPS allocated: 17.67 GB, other allocations: 320.00 MB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool.',
    kind: 'mps',
    askedBytes: mib(256),
    totalBytes: gib(18.13),
  },
  {
    from: 'PyTorch on an Intel GPU',
    text: 'torch.OutOfMemoryError: XPU out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 11.33 GiB.',
    kind: 'xpu',
    askedBytes: GiB,
    totalBytes: gib(11.33),
  },
  {
    from: 'JAX',
    text: 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.',
    kind: 'jax',
    askedBytes: 7_406_166_528,
  },
  {
    from: 'JAX, another wording',
    text: 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.',
    kind: 'jax',
    askedBytes: 20_029_400_304,
  },
  {
    from: 'JAX, 2019',
    text: '[1] Execution of replica 0 failed: Resource exhausted: Out of memory while trying to allocate 5520758552 bytes.',
    kind: 'jax',
    askedBytes: 5_520_758_552,
  },
  {
    from: 'XLA at compile time',
    text: 'RESOURCE_EXHAUSTED: Failed to allocate request for 8.00GiB (8589934592B) on device ordinal 0',
    kind: 'jax',
    askedBytes: 8 * GiB,
  },
  {
    from: 'XLA on a TPU',
    text: 'RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.50G of 15.48G hbm.',
    kind: 'jax',
  },
  {
    from: 'TensorFlow',
    text: 'tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,2016,9,9] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc',
    kind: 'tensorflow',
    askedBytes: 64 * 2016 * 9 * 9 * 4,
  },
  {
    from: 'TensorFlow, graph mode',
    text: 'ResourceExhaustedError:  OOM when allocating tensor with shape[2048,436631] and type half on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:Mul]',
    kind: 'tensorflow',
    askedBytes: 2048 * 436_631 * 2,
  },
  {
    from: 'llama.cpp',
    text: 'ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: out of memory',
    kind: 'llama.cpp',
    askedBytes: mib(144),
  },
  {
    from: 'llama.cpp, compute buffers',
    text: 'ggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968',
    kind: 'llama.cpp',
    askedBytes: 150_995_968,
  },
  {
    from: 'llama.cpp, weights',
    text: 'alloc_tensor_range: failed to allocate CUDA0 buffer of size 151851674624',
    kind: 'llama.cpp',
    askedBytes: 151_851_674_624,
  },
  {
    from: 'llama.cpp, the context',
    text: 'llama_new_context_with_model: failed to allocate compute buffers',
    kind: 'llama.cpp',
  },
  {
    from: 'llama.cpp, 2023',
    text: 'CUDA error 2 at ggml-cuda.cu:359: out of memory',
    kind: 'llama.cpp',
  },
  {
    from: 'llama.cpp on the CPU',
    text: 'ggml_aligned_malloc: insufficient memory (attempted to allocate 4096.00 MB)',
    kind: 'llama.cpp',
    askedBytes: mib(4096),
  },
  { from: 'Python', text: 'MemoryError', kind: 'python' },
  {
    from: 'NumPy',
    text: 'numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type float64',
    kind: 'python',
    askedBytes: gib(7.45),
  },
  {
    from: 'Python, a fork',
    text: 'OSError: [Errno 12] Cannot allocate memory',
    kind: 'python',
  },
  {
    from: 'a worker of Ray',
    text: '(train_fn pid=4711, ip=10.0.0.7) MemoryError: ',
    kind: 'python',
  },
  {
    from: 'Node, heap',
    text: 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
    kind: 'node',
  },
  {
    from: 'Node 12',
    text: 'FATAL ERROR: CALL_AND_RETRY_LAST Allocation failed - JavaScript heap out of memory',
    kind: 'node',
  },
  {
    from: 'Node, buffers',
    text: 'RangeError: Array buffer allocation failed',
    kind: 'node',
  },
  {
    from: 'Node, a worker thread',
    text: 'Error [ERR_WORKER_OUT_OF_MEMORY]: Worker terminated due to reaching memory limit: JS heap out of memory',
    kind: 'node',
  },
  { from: 'V8', text: '# Fatal process out of memory: Zone', kind: 'node' },
  {
    from: 'vLLM',
    text: 'ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.',
    kind: 'vllm',
  },
  {
    from: 'C++',
    text: "terminate called after throwing an instance of 'std::bad_alloc'",
    kind: 'native',
  },
  {
    from: 'Rust',
    text: 'memory allocation of 1099511627776 bytes failed',
    kind: 'native',
    askedBytes: 1_099_511_627_776,
  },
  { from: 'Go', text: 'fatal error: runtime: out of memory', kind: 'native' },
  {
    from: 'Java',
    text: 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
    kind: 'java',
  },
  {
    from: 'PyTorch in colours',
    text: '\u001B[31mRuntimeError: CUDA error: out of memory\u001B[0m',
    kind: 'cuda-driver',
  },
];

/** Lines that speak of memory and tell of no failure, or of another one. */
export const lookAlikes: readonly string[] = [
  'Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.02GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.',
  'I tensorflow/stream_executor/cuda/cuda_driver.cc:739] failed to allocate 2.12G (2282521344 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory',
  'W tensorflow/core/common_runtime/bfc_allocator.cc:343] Garbage collection: deallocate free memory regions (i.e., allocations) so that we can re-allocate a larger region to avoid OOM due to memory fragmentation.',
  'ggml_cuda_host_malloc: failed to allocate 1900.00 MiB of pinned memory: invalid argument',
  'triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376. Reducing block sizes or num_stages may help.',
  'grpc._channel._InactiveRpcError: StatusCode.RESOURCE_EXHAUSTED: Quota exceeded for requests per minute',
  'google.api_core.exceptions.ResourceExhausted: 429 RESOURCE_EXHAUSTED rate limit',
  'RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`',
  'RuntimeError: CUDA error: an illegal memory access was encountered',
  'RuntimeError: CUDA error: device-side assert triggered',
  'ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).',
  'RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ',
  '    except MemoryError:',
  '    raise MemoryError("no room")',
  "        if 'CUDA out of memory' in str(error):",
  '# handle CUDA out of memory by a smaller batch',
  'Killed',
  'Segmentation fault (core dumped)',
  'memory usage: 95 % of 80 GiB',
  'max memory allocated: 12.3 GiB, reserved 14.0 GiB',
  'GPU memory: allocated 3.93 GiB, out of 139.80 GiB',
  'step 12/100 loss 2.3 mem 11.2G',
  'OSError: [Errno 28] No space left on device',
  'BlockingIOError: [Errno 11] Resource temporarily unavailable',
  'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True',
  'The allocator of cudaMallocAsync is in use',
  'Set --max-old-space-size to avoid JavaScript heap problems',
  'oom_score_adj is 0',
  'srun: error: node3: task 1: Exited with exit code 1',
  'srun: job 17 queued and waiting for resources',
  'INFO: slurm ended job 16 with OUT_OF_MEMORY yesterday',
  'SwapMemoryErrorHandler installed',
  'test_memory_error.py::test_MemoryError PASSED',
];
