import type { ParameterList } from '../parameter-list.js';

/** Two matrices up, one down, by their names in the families that descend from Llama. */
export function addGatedFeedForward(
  mlp: ParameterList,
  hidden: number,
  inner: number,
  bias: boolean,
  fused = false,
): void {
  if (fused) mlp.linear('gate_up_proj', hidden, 2 * inner, bias);
  else {
    mlp.linear('gate_proj', hidden, inner, bias);
    mlp.linear('up_proj', hidden, inner, bias);
  }
  mlp.linear('down_proj', inner, hidden, bias);
}
