import { optimizers, precisions, quantizationPresets } from '../../../src/estimate/types.js';
import type { Problems } from '../state/forms/form-values.js';
import type { WorkloadDraft, WorkloadField } from '../state/forms/workload-draft.js';
import { ChoiceField, TextField } from './field.js';

const named = (names: readonly string[], open: string): readonly (readonly [string, string])[] => [
  ['', open],
  ...names.map((name) => [name, name] as const),
];

/** Which model, run how: the same questions for a plan, an estimate and a job. */
export function WorkloadFields(props: {
  draft: WorkloadDraft;
  problems: Problems<WorkloadField>;
  /** What holds where nothing is chosen. */
  open: string;
  /** Modes beside training and inference, where the form has fields for them. */
  otherModes?: readonly (readonly [string, string])[];
  /** False where the form has a field for the batch elsewhere. */
  hasBatch?: boolean;
  set: (field: WorkloadField, value: string) => void;
}) {
  const { draft, problems, set, open, hasBatch = true, otherModes = [] } = props;
  const bind = (field: WorkloadField) => ({
    value: draft[field],
    problem: problems[field],
    set: (value: string) => set(field, value),
  });
  const training = draft.mode !== 'infer';
  return (
    <div class="fields">
      <TextField
        {...bind('model')}
        label="Model"
        placeholder="llama-3-8b"
        hint="A name, or a path on the server: config.json, folder, .safetensors, .gguf; torchvision:NAME"
      />
      <ChoiceField
        {...bind('mode')}
        label="For"
        choices={[['train', 'training'], ['infer', 'inference'], ...otherModes]}
      />
      {hasBatch && <TextField {...bind('batch')} label="Batch" placeholder="32" numeric />}
      <TextField {...bind('seq')} label="Tokens of a sequence" placeholder="1024" numeric />
      <TextField {...bind('image')} label="Pixels of an image's edge" placeholder="224" numeric />
      <ChoiceField {...bind('precision')} label="Precision" choices={named(precisions, open)} />
      {training && (
        <ChoiceField {...bind('optimizer')} label="Optimizer" choices={named(optimizers, open)} />
      )}
      {training && (
        <ChoiceField
          {...bind('checkpointing')}
          label="Checkpointing"
          choices={named(['yes', 'no'], open)}
        />
      )}
      {training && <TextField {...bind('lora')} label="LoRA rank" placeholder="none" numeric />}
      <ChoiceField
        {...bind('quantization')}
        label="Quantization"
        choices={named(quantizationPresets, open)}
      />
      <TextField
        {...bind('gpu')}
        label="Card"
        placeholder="the one found here"
        hint="h100, 4090, a100-80gb …"
      />
      <ChoiceField
        {...bind('method')}
        label="Method"
        choices={[
          ['', 'auto'],
          ['trace', 'trace'],
          ['formula', 'formula'],
        ]}
      />
    </div>
  );
}
