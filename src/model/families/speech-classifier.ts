import type { ConfigFields } from '../config/config-fields.js';
import type { ParameterList } from '../parameter-list.js';

/** The classifier over a whole recording, alike in Whisper and Wav2Vec2. Answers its classes. */
export function addSpeechClassifier(
  parameters: ParameterList,
  fields: ConfigFields,
  hidden: number,
  layers: number,
): number {
  const outputs = fields.labels();
  const projected = fields.size('classifier_proj_size');
  // A weight for each layer and for what goes into the first.
  if (fields.flag('use_weighted_layer_sum')) parameters.tensor('layer_weights', [layers + 1]);
  parameters.linear('projector', hidden, projected);
  parameters.linear('classifier', projected, outputs);
  return outputs;
}
