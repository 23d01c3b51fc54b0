/** Attention over heads, as it reaches PyTorch's `scaled_dot_product_attention`. */
export interface AttentionShape {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queries: number;
  readonly keys: number;
  readonly headDim: number;
  readonly valueDim: number;
  readonly dropout: number;
}
