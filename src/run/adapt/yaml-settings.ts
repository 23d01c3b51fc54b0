import { accumulationNames, batchNames, wholeNumber } from './known-flags.js';

/** A number in a YAML file that a command names. */
export interface YamlSetting {
  readonly line: number;
  readonly key: string;
  readonly value: number;
}

export interface YamlSettings {
  readonly batch: YamlSetting;
  readonly accumulation: YamlSetting | undefined;
}

/** Configurations have some hundred lines; what is far longer is data. */
const maxLines = 20_000;

/** Lines such as `  batch_size: 8  # comment`; other forms of YAML are not looked into. */
const setting = /^[\s-]*['"]?([a-z_][\w-]*)['"]?\s*:\s*(\d+)\s*(?:#.*)?$/i;

/** The batch and the accumulation that a configuration sets; undefined where it sets no batch. */
export function yamlSettings(text: string): YamlSettings | undefined {
  const found = text.split('\n', maxLines).flatMap((line, index) => {
    const [, key = '', number = ''] = setting.exec(line.trimEnd()) ?? [];
    const value = wholeNumber(number);
    return value === undefined ? [] : [{ line: index + 1, key, value }];
  });
  const first = (names: readonly string[]) => {
    for (const name of names) {
      const one = found.find(
        ({ key }) => key.length > 2 && key.toLowerCase().replaceAll('-', '_') === name,
      );
      if (one !== undefined) return one;
    }
    return undefined;
  };
  const batch = first(batchNames);
  return batch === undefined ? undefined : { batch, accumulation: first(accumulationNames) };
}

/** The words of a command that name a YAML file, also as `--config=file.yaml`. */
export function yamlFiles(command: readonly string[]): readonly string[] {
  return command
    .map((word) => (word.startsWith('-') ? word.slice(word.indexOf('=') + 1) : word))
    .filter((word) => /\.ya?ml$/i.test(word));
}
