import { isKnown } from '../../units/known.js';
import { amount } from '../recognise/amounts.js';
import type { OutOfMemory } from '../types.js';

/** PyTorch says how much of what it reserved no tensor uses. */
const unused = /(\d[\d.]* ?[KMGT]?i?B) is reserved by PyTorch but unallocated/;

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
