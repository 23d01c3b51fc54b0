// What people go by without a trace, beside which ours is shown.

/** `accelerate estimate-memory`: the weights, and four times that to train with Adam. */
export function accelerateRule({ mode, param_bytes: weights }) {
  return mode === 'train' ? 4 * weights : weights;
}

/** Mixed precision with Adam: 18 bytes a parameter. It says nothing about inference. */
export function eighteenBytesRule({ mode, params }) {
  return mode === 'train' ? 18 * params : undefined;
}
