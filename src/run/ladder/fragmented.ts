import { isKnown, type Known } from '../../units/known.js';
import { amount } from '../recognise/amounts.js';
import type { OutOfMemory } from '../types.js';

/** PyTorch says how much of what it reserved no tensor uses. */
const unused = /(\d[\d.]* ?[KMGT]?i?B) is reserved by PyTorch but unallocated/;

/** And how much tensors use. */
const used = /(\d[\d.]* ?[KMGT]?i?B) is allocated by PyTorch/;

/**
 * What tensors took when the request failed, by PyTorch's message: the peak may be of an earlier time.
 *
 * @example
 * heldAtFailure({ message: 'Of the allocated memory 3.00 GiB is allocated by PyTorch', ... }); // 3221225472
 */
export function heldAtFailure({ message }: Pick<OutOfMemory, 'message'>): Known<number> {
  return amount(used.exec(message)?.[1]);
}

/**
 * Whether enough was free, in pieces too small for the request: segments that grow in place put
 * such pieces together.
 *
 * @example
 * fragmented({ askedBytes: 2 ** 20, message: '... 3.00 GiB is reserved by PyTorch but unallocated', ... }); // true
 */
export function fragmented({ askedBytes, message }: OutOfMemory): boolean {
  const free = amount(unused.exec(message)?.[1]);
  return isKnown(askedBytes) && isKnown(free) && askedBytes > 0 && free >= askedBytes;
}
