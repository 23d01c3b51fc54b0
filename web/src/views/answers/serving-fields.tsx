import { quantizationPresets } from '../../../../src/estimate/types.js';
import { ChoiceField, TextField } from '../../parts/field.js';

/** Modes that only an estimate has. */
export const servingChoices = [
  ['generate', 'writing text (generate)'],
  ['serve', 'a server of requests'],
] as const;

const asUsual = (names: readonly string[]): readonly (readonly [string, string])[] => [
  ['', 'as usual'],
  ...names.map((name) => [name, name] as const),
];

type Field =
  | 'model'
  | 'mode'
  | 'batch'
  | 'prompt'
  | 'new'
  | 'beams'
  | 'precision'
  | 'quantization'
  | 'engine'
  | 'maxModelLen'
  | 'gpuMemoryUtilization'
  | 'kvPrecision'
  | 'gpu';

interface Bound {
  value: string;
  problem: string | undefined;
  set: (value: string) => void;
}

/** What is asked of a model that writes text. */
export function ServingFields(props: {
  mode: 'generate' | 'serve';
  bind: (field: Field) => Bound;
}) {
  const { mode, bind } = props;
  const number = (field: Field, label: string, placeholder: string) => (
    <TextField {...bind(field)} label={label} placeholder={placeholder} numeric />
  );
  return (
    <div class="fields">
      <TextField {...bind('model')} label="Model" placeholder="/models/llama/config.json" />
      <ChoiceField
        {...bind('mode')}
        label="For"
        choices={[['train', 'training'], ['infer', 'inference'], ...servingChoices]}
      />
      {mode === 'generate' ? (
        <>
          {number('batch', 'Texts at once', '8')}
          {number('prompt', 'Tokens of a prompt', '512')}
          {number('new', 'Tokens that are written', '256')}
          {number('beams', 'Beams', '1')}
        </>
      ) : (
        <>
          <ChoiceField
            {...bind('engine')}
            label="Engine"
            choices={asUsual(['vllm', 'llama.cpp', 'transformers'])}
          />
          {number('maxModelLen', 'Tokens of the longest request', "the model's own")}
          <TextField
            {...bind('gpuMemoryUtilization')}
            label="Share that vLLM takes"
            placeholder="0.9"
          />
          <ChoiceField
            {...bind('kvPrecision')}
            label="Cache in"
            choices={asUsual(['bf16', 'fp16', 'fp8', 'q8_0', 'q4_0'])}
          />
          <ChoiceField
            {...bind('quantization')}
            label="Quantization"
            choices={asUsual(quantizationPresets)}
          />
        </>
      )}
      <ChoiceField
        {...bind('precision')}
        label="Precision"
        choices={asUsual(['bf16', 'fp16', 'fp32'])}
      />
      <TextField {...bind('gpu')} label="Card" placeholder="the one found here" />
    </div>
  );
}
