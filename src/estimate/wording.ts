/** How errors and notes name what was asked for: as those who asked wrote it. */
export interface Wording<Setting extends string = EstimateSetting> {
  readonly name: (setting: Setting) => string;
  /** A setting with a value, as an example. */
  readonly example: (setting: Setting, value: unknown) => string;
  /** How to have another Python taken: no request asks for one. */
  readonly anotherPython: string;
}

/** Settings that an estimate may name, as requests call them. */
export type EstimateSetting =
  | 'script'
  | 'mode'
  | 'seq'
  | 'image'
  | 'targetSeq'
  | 'keep'
  | 'checkpointing'
  | 'lora'
  | 'quantization'
  | 'gpu'
  | 'method'
  | 'parallel'
  | 'tp'
  | 'nodes'
  | 'gpus';

/** Settings that have another name in code. */
const namesInCode: Readonly<Record<string, string>> = {
  seq: 'sequence',
  targetSeq: 'targetSequence',
  lora: 'loraRank',
};

/** For those who call these functions themselves. */
export const callWording: Wording<string> = {
  name: nameInCode,
  example: (setting, value) => `${nameInCode(setting)}: ${literal(value)}`,
  anotherPython: 'name another as python',
};

function nameInCode(setting: string): string {
  return namesInCode[setting] ?? setting;
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : JSON.stringify(value);
}
