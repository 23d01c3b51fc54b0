import type { ConfigFields } from '../config/config-fields.js';

/** Whole patches that fit into the image, as torch counts them. */
export function patchesOf(fields: ConfigFields): number {
  const [height, width] = fields.square('image_size');
  const [patchHeight, patchWidth] = fields.square('patch_size');
  return Math.floor(height / patchHeight) * Math.floor(width / patchWidth);
}
