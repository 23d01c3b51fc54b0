import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  plainFeedForward,
} from './family.js';

/** Edge of the depthwise convolution in every layer. */
const kernel = 7;

interface Stage {
  readonly depth: number;
  readonly hidden: number;
}

function stagesOf(fields: ConfigFields): readonly Stage[] {
  const depths = fields.depths('depths');
  const widths = fields.sizes('hidden_sizes');
  const stages = fields.size('num_stages');
  if (depths.length < stages || widths.length < stages) {
    throw fields.bad('num_stages', `${stages}, more than "depths" or "hidden_sizes" list`);
  }
  return widths.slice(0, stages).map((hidden, index) => ({ hidden, depth: depths[index] ?? 0 }));
}

function addStage(
  scope: ParameterList,
  stage: Stage,
  before: Stage | undefined,
  scaled: boolean,
): void {
  const { depth, hidden } = stage;
  if (before !== undefined) {
    // The first stage keeps the map as large as it is; the others halve it.
    scope.norm('downsampling_layer.*', before.hidden);
    scope.convolution('downsampling_layer.*', [hidden, before.hidden, 2, 2]);
  }
  const layer = scope.scope('layers.*', depth);
  if (scaled) layer.tensor('layer_scale_parameter', [hidden]);
  layer.convolution('dwconv', [hidden, 1, kernel, kernel]);
  layer.norm('layernorm', hidden);
  layer.linear('pwconv1', hidden, 4 * hidden);
  layer.linear('pwconv2', 4 * hidden, hidden);
}

function describe(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const stages = stagesOf(fields);
  const channels = fields.size('num_channels');
  const patch = fields.square('patch_size');
  const scaled = fields.number('layer_scale_init_value') > 0;
  const width = stages[0]?.hidden ?? 0;
  const hidden = fields.sizes('hidden_sizes').at(-1) ?? width;
  const parameters = new ParameterList();
  const body = parameters.scope(head === 'none' ? '' : 'convnext');
  body.convolution('embeddings.patch_embeddings', [width, channels, ...patch]);
  body.norm('embeddings.layernorm', width);
  stages.forEach((stage, index) => {
    addStage(body.scope('encoder.stages.*'), stage, stages[index - 1], scaled);
  });
  body.norm('layernorm', hidden);
  const outputs = head === 'none' ? 0 : fields.labels();
  if (outputs > 0) parameters.linear('classifier', hidden, outputs);
  return oneStack(
    { kind: 'vision', head, outputs, tied: false, parameters },
    {
      role: 'vision',
      hidden,
      input: {
        kind: 'image',
        channels,
        imageSize: fields.square('image_size'),
        patchSize: patch,
        extraTokens: 0,
      },
      dropout: { ...noDropout, path: fields.number('drop_path_rate') },
      layers: stages.map((stage, index) => ({
        count: stage.depth,
        hidden: stage.hidden,
        reduction: 2 ** index,
        convolution: kernel,
        feedForward: plainFeedForward(4 * stage.hidden, fields.text('hidden_act')),
        parallel: false,
        norm: 'layer',
        norms: 1,
      })),
    },
  );
}

export const convnextFamilies: Readonly<Record<string, FamilyRules>> = {
  convnext: {
    family: 'convnext',
    classes: new Map<string, Head>([
      ['ConvNextForImageClassification', 'image-classification'],
      ['ConvNextModel', 'none'],
    ]),
    table: {
      defaults: {
        num_channels: 3,
        patch_size: 4,
        num_stages: 4,
        hidden_sizes: [96, 192, 384, 768],
        depths: [3, 3, 9, 3],
        hidden_act: 'gelu',
        layer_scale_init_value: 1e-6,
        drop_path_rate: 0,
        image_size: 224,
      },
    },
    describe,
  },
};
