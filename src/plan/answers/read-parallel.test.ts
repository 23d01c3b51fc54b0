import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { parallelOf } from './read-parallel.js';
import { checkRequest } from './read-workload.js';
import { fieldWording } from './wording.js';
import type { WorkloadRequest } from './workload-request.js';

function read(request: WorkloadRequest) {
  return parallelOf(checkRequest(request, fieldWording, 'estimate'), fieldWording);
}

function codeOf(request: WorkloadRequest): string {
  try {
    read(request);
    return 'none';
  } catch (error) {
    return error instanceof Failure ? error.code : 'unexpected';
  }
}

describe('parallelOf', () => {
  it('is nothing on one GPU', () => {
    expect(read({})).toBeUndefined();
    expect(read({ gpus: 1 })).toBeUndefined();
  });

  it('takes what a way has', () => {
    const fsdp = { gpus: 8, parallel: 'fsdp1', gatherPrecision: 'bf16', origParams: false };
    expect(read(fsdp)).toMatchObject({ way: 'fsdp1', gpus: 8, originalParameters: false });
    expect(read({ gpus: 8, parallel: 'ddp', bucketMb: 50, bucketView: true })).toMatchObject({
      bucketMb: 50,
      bucketView: true,
    });
    expect(read({ gpus: 8, parallel: 'hsdp' })).toMatchObject({ nodes: 2 });
  });

  it('says that pipeline, context and expert parallelism are not counted', () => {
    for (const parallel of ['pp', 'pipeline', 'cp', 'context', 'ep', 'expert']) {
      expect(codeOf({ gpus: 8, parallel })).toBe('not-counted');
    }
    expect(codeOf({ gpus: 8, parallel: 'fsdp3' })).toBe('bad-field');
  });

  it('refuses more ranks than a trace pretends, before it is begun', () => {
    expect(codeOf({ gpus: 2 ** 20, parallel: 'ddp' })).toBe('none');
    expect(codeOf({ gpus: 2 ** 21, parallel: 'ddp' })).toBe('bad-usage');
  });

  it('refuses what does nothing or does not fit together', () => {
    const wrong: readonly WorkloadRequest[] = [
      { gpus: 8 },
      { parallel: 'ddp' },
      { gpus: 1, parallel: 'ddp' },
      { tp: 2 },
      { gpus: 8, parallel: 'ddp', gatherPrecision: 'bf16' },
      { gpus: 8, parallel: 'fsdp2', bucketMb: 25 },
      { gpus: 8, parallel: 'fsdp2', tp: 3 },
      { gpus: 8, parallel: 'hsdp', nodes: 3 },
      { gpus: 9, parallel: 'hsdp' },
      { gpus: 8, parallel: 'hsdp', nodes: 1 },
      { gpus: 8, parallel: 'hsdp', nodes: 8 },
      { gpus: 2, parallel: 'hsdp' },
      { gpus: 8, parallel: 'fsdp2', offload: 'weights' },
      { gpus: 8, parallel: 'fsdp2', mode: 'infer' },
    ];
    expect(wrong.filter((request) => codeOf(request) !== 'bad-usage')).toEqual([]);
  });
});
