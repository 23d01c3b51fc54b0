import { Failure } from '../../failure.js';

export function refuseRequest(bytes: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-request-size',
    fact: `${bytes} bytes cannot be asked of the allocator.`,
    next: 'Ask for 1 byte to 1 PiB; leave empty tensors out.',
  });
}

export function refuseFree(handle: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-free',
    fact: `Block ${handle} is not allocated.`,
    next: 'Free each block once.',
  });
}
