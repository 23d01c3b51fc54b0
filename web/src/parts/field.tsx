import type { ComponentChildren, TargetedInputEvent } from 'preact';
import { useId } from 'preact/hooks';

interface FieldProps {
  readonly label: string;
  readonly hint?: string;
  readonly problem: string | undefined;
  readonly value: string;
  readonly set: (value: string) => void;
}

/** A field with its name above, a hint below, and what is wrong with it. */
function Frame(
  props: Omit<FieldProps, 'value' | 'set'> & {
    id: string;
    children: ComponentChildren;
    wide?: boolean;
  },
) {
  const { id, label, hint, problem } = props;
  return (
    <div
      class={`field ${props.wide === true ? 'wide' : ''} ${problem === undefined ? '' : 'wrong'}`}
    >
      <label class="label" for={id}>
        {label}
      </label>
      {props.children}
      {problem !== undefined && (
        <p class="problem" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
      {hint !== undefined && problem === undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

function described(id: string, { hint, problem }: FieldProps): string | undefined {
  if (problem !== undefined) return `${id}-problem`;
  return hint === undefined ? undefined : `${id}-hint`;
}

type TypedProps = FieldProps & { readonly placeholder?: string };

/** Moves to the first field with a problem, after the fields were drawn with their problems. */
export function focusWrong(): void {
  requestAnimationFrame(() => {
    document.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  });
}

/** Attributes of a text field, on one line or on several. */
function typed(id: string, props: TypedProps) {
  return {
    id,
    value: props.value,
    placeholder: props.placeholder ?? '',
    'aria-invalid': props.problem !== undefined,
    'aria-describedby': described(id, props),
    autocomplete: 'off',
    spellcheck: false,
    onInput: (event: TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>) =>
      props.set(event.currentTarget.value),
  } as const;
}

export function TextField(
  props: TypedProps & {
    numeric?: boolean;
    /** Values that are offered while one types. */
    suggestions?: readonly (readonly [value: string, label: string])[];
  },
) {
  const id = useId();
  const { numeric = false, suggestions = [] } = props;
  const list = `${id}-list`;
  return (
    <Frame id={id} {...props}>
      <input
        type="text"
        inputMode={numeric ? 'numeric' : 'text'}
        {...(suggestions.length > 0 && { list })}
        {...typed(id, props)}
      />
      {suggestions.length > 0 && (
        <datalist id={list}>
          {suggestions.map(([value, label]) => (
            <option key={value} value={value} label={label} />
          ))}
        </datalist>
      )}
    </Frame>
  );
}

export function AreaField(props: TypedProps & { rows: number; wide?: boolean }) {
  const id = useId();
  return (
    <Frame id={id} {...props}>
      <textarea rows={props.rows} {...typed(id, props)} />
    </Frame>
  );
}

export function ChoiceField(
  props: FieldProps & { choices: readonly (readonly [value: string, label: string])[] },
) {
  const id = useId();
  return (
    <Frame id={id} {...props}>
      <select
        id={id}
        value={props.value}
        aria-describedby={described(id, props)}
        onChange={(event) => props.set(event.currentTarget.value)}
      >
        {props.choices.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </Frame>
  );
}
