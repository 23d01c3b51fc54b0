import {
  keptResults,
  optimizers,
  precisions,
  quantizationPresets,
} from '../../../src/estimate/types.js';
import { formChoices, formLabels } from '../../../src/plan/answers/wording.js';
import { formatBytes } from '../../../src/units/bytes.js';
import type { Assumptions } from '../api/types.js';
import { useNames } from '../state/forms/assumed.js';
import type { Problems } from '../state/forms/form-values.js';
import type { WorkloadDraft, WorkloadField } from '../state/forms/workload-draft.js';
import { ChoiceField, TextField } from './field.js';

/** Words for the value that the server assumes for an empty field; known once it has answered. */
function taken(value: string | number | boolean | undefined): string {
  if (value === undefined) return 'default';
  const word = typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
  return `${word} (default)`;
}

/** Choices with the empty one first, which says what it stands for. */
export function openChoices(
  names: readonly string[],
  value: string | number | boolean | undefined,
): readonly (readonly [string, string])[] {
  return [['', taken(value)], ...names.map((name) => [name, name] as const)];
}

interface Bound {
  readonly value: string;
  readonly problem: string | undefined;
  readonly set: (value: string) => void;
}

/** The name of a model, with those of the catalogue to choose from. */
export function ModelField(props: Bound & { readonly hint: string }) {
  const models = useNames()?.models ?? [];
  return (
    <TextField
      {...props}
      label={formLabels.model}
      placeholder="such as llama-3-8b"
      suggestions={models.map((name) => [name, name] as const)}
    />
  );
}

/** The card, with all that are known to choose from. */
export function CardField(props: Bound & { readonly optional: boolean }) {
  const { optional, ...bound } = props;
  const names = useNames();
  const { name, isHere } = names?.gpu ?? { name: '', isHere: false };
  const placeholder = isHere || optional ? name : `needed, or ${formLabels.memoryBytes}`;
  return (
    <TextField
      {...bound}
      label={formLabels.gpu}
      placeholder={names === undefined ? '' : placeholder}
      hint={`${isHere ? 'Found here; or' : 'No GPU was found here;'} h100, 4090, a100-80gb …`}
      suggestions={(names?.gpus ?? []).map(
        (gpu) => [gpu.name, formatBytes(gpu.capacityBytes)] as const,
      )}
    />
  );
}

/** Which model, run how: the same questions for a plan, an estimate and a job. */
export function WorkloadFields(props: {
  draft: WorkloadDraft;
  problems: Problems<WorkloadField>;
  /** The server's assumptions for fields left empty; undefined until it has answered. */
  assumed: Assumptions | undefined;
  /** Whether a plan chooses what is left open. */
  planned?: boolean;
  /** Modes beside training and inference, where the form has fields for them. */
  otherModes?: readonly (readonly [string, string])[];
  /** False where the form has a field for the batch elsewhere. */
  hasBatch?: boolean;
  set: (field: WorkloadField, value: string) => void;
}) {
  const { draft, problems, set, assumed, planned = false } = props;
  const { hasBatch = true, otherModes = [] } = props;
  const bind = (field: WorkloadField) => ({
    label: formLabels[field],
    value: draft[field],
    problem: problems[field],
    set: (value: string) => set(field, value),
  });
  const training = draft.mode !== 'infer';
  const choices = (names: readonly string[], value: string | boolean | undefined) => {
    const all = openChoices(names, value);
    return planned ? [['', chosenByPlan] as const, ...all.slice(1)] : all;
  };
  const size = (value: number | undefined) =>
    assumed === undefined ? 'from the model' : String(value ?? 'not used');
  return (
    <div class="fields">
      <ModelField
        {...bind('model')}
        hint="A name, or a path on the server: config.json, folder, .safetensors, .gguf; torchvision:NAME"
      />
      <ChoiceField
        {...bind('mode')}
        choices={[
          ['train', formChoices.mode.train],
          ['infer', formChoices.mode.infer],
          ...otherModes,
        ]}
      />
      {hasBatch && (
        <TextField
          {...bind('batch')}
          placeholder={planned ? chosenByPlan : String(assumed?.batch ?? '')}
          numeric
        />
      )}
      <TextField {...bind('seq')} placeholder={size(assumed?.seq)} numeric />
      <TextField {...bind('image')} placeholder={size(assumed?.image)} numeric />
      <ChoiceField {...bind('precision')} choices={choices(precisions, assumed?.precision)} />
      {training && (
        <>
          <ChoiceField {...bind('optimizer')} choices={choices(optimizers, assumed?.optimizer)} />
          <ChoiceField
            {...bind('checkpointing')}
            choices={choices(['yes', 'no'], assumed?.checkpointing)}
          />
          <ChoiceField {...bind('keep')} choices={openChoices(keptResults, assumed?.keep)} />
          <TextField
            {...bind('lora')}
            placeholder={planned ? chosenByPlan : 'none (default)'}
            numeric
          />
        </>
      )}
      <ChoiceField {...bind('quantization')} choices={choices(quantizationPresets, 'none')} />
      <CardField {...bind('gpu')} optional={!planned} />
      <ChoiceField
        {...bind('method')}
        choices={[
          ['', 'auto'],
          ['trace', 'trace'],
          ['formula', 'formula'],
        ]}
      />
    </div>
  );
}

const chosenByPlan = 'chosen by the plan';
