// A run of bench/truth/sharded.json as a workload.

/** Which model is traced, and how. */
export function caseOf(run, configs) {
  const { way, world, precision, view, bucket, strategy, orig, accum, reshard, nodes, tp } = run;
  const mixed = precision === 'bf16-mixed';
  return {
    source: { kind: 'config', path: `${configs}${run.model}.json` },
    workload: {
      mode: 'train',
      batch: run.batch,
      sequence: run.seq,
      precision: mixed ? 'fp32' : precision,
      optimizer: run.optimizer,
      checkpointing: run.checkpointing,
      ...(accum !== undefined && { accumulation: accum }),
      parallel: {
        way,
        gpus: world,
        ...(mixed && { gatherPrecision: 'bf16', reducePrecision: 'fp32' }),
        ...(nodes !== undefined && { nodes }),
        ...(tp !== undefined && { tensorParallel: tp }),
        ...(reshard === false && { reshard }),
        ...(view === true && { bucketView: true }),
        ...(bucket !== undefined && { bucketMb: bucket }),
        ...(strategy === 'SHARD_GRAD_OP' && { fsdpStrategy: 'grad-op' }),
        ...(orig === false && { originalParameters: false }),
      },
    },
  };
}

/** The rule of thumb: 16 bytes a parameter (8 where all is bf16), shared out over the ranks. */
export function dividedBytes({ params, precision, way, world }) {
  if (params === undefined) return Number.NaN;
  const each = precision === 'bf16' ? 2 : 4;
  const shared = way.startsWith('fsdp') ? 4 / world : way === 'zero1' ? 2 + 2 / world : 4;
  return params * each * shared;
}
