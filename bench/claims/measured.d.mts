import type { Claim } from './recorded.mjs';

export function keptClaims(): readonly Claim[];
