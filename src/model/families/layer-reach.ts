import type { ConfigFields } from '../config/config-fields.js';

/** How far each layer sees, and its window where that is not everything. */
export interface LayerReach {
  readonly reach: 'full' | 'sliding';
  readonly window?: number;
}

const full: LayerReach = { reach: 'full' };

/**
 * Which layers slide where `layer_types` does not say it: by family, as transformers fills it in.
 * `every`: all layers, once there is a window.
 */
export type SlidingRule =
  | 'never'
  | 'every'
  | 'every-if-used'
  | 'after-max-window-layers'
  | 'even-before-max-window-layers'
  | 'all-but-each-second'
  | 'all-but-each-nth';

type Slides = (layer: number, fields: ConfigFields) => boolean;

const slides: Readonly<Record<SlidingRule, Slides>> = {
  never: () => false,
  every: () => true,
  'every-if-used': (_, fields) => fields.flag('use_sliding_window'),
  'after-max-window-layers': (layer, fields) =>
    fields.flag('use_sliding_window') && layer >= fields.count('max_window_layers'),
  'even-before-max-window-layers': (layer, fields) =>
    fields.flag('use_sliding_window') &&
    layer % 2 === 0 &&
    layer < fields.count('max_window_layers'),
  'all-but-each-second': (layer) => layer % 2 === 0,
  'all-but-each-nth': (layer, fields) => (layer + 1) % fields.size('sliding_window_pattern') !== 0,
};

/** Rules whose families take `layer_types` from the config. */
const listed: ReadonlySet<SlidingRule> = new Set([
  'after-max-window-layers',
  'even-before-max-window-layers',
  'all-but-each-second',
  'all-but-each-nth',
]);

export function layerReaches(
  fields: ConfigFields,
  layers: number,
  rule: SlidingRule,
): readonly LayerReach[] {
  const window = rule === 'never' ? 0 : windowOf(fields);
  const types = listed.has(rule) ? fields.texts('layer_types') : undefined;
  if (types !== undefined && types.length !== layers) {
    throw fields.bad('layer_types', `a list of ${types.length} for ${layers} layers`);
  }
  return Array.from({ length: layers }, (_, layer) => {
    const type = types?.[layer];
    if (type !== undefined && type !== 'full_attention' && type !== 'sliding_attention') {
      throw fields.bad(
        'layer_types',
        `a list with "${type.slice(0, 40)}", which is not understood`,
      );
    }
    const sliding = type === undefined ? slides[rule](layer, fields) : type === 'sliding_attention';
    return sliding && window > 0 ? { reach: 'sliding', window } : full;
  });
}

/** A config writes "no window" as null, or as 0. */
function windowOf(fields: ConfigFields): number {
  return fields.has('sliding_window') ? fields.count('sliding_window') : 0;
}
