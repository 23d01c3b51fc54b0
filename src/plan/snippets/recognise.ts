/** Frameworks that a plan can be written down for, ready to paste. */
export const frameworks = [
  'trainer',
  'lightning',
  'accelerate',
  'deepspeed',
  'peft',
  'torchrun',
] as const;
export type Framework = (typeof frameworks)[number];

/** How people name them. */
export const frameworkNames: Readonly<Record<Framework, string>> = {
  trainer: 'the Trainer of transformers',
  lightning: 'Lightning',
  accelerate: 'accelerate',
  deepspeed: 'DeepSpeed',
  peft: 'peft',
  torchrun: 'torchrun',
};

/** A file of a project: its name, and its text as far as it was read. */
export interface ProjectFile {
  readonly name: string;
  readonly text: string;
}

export interface Recognised {
  readonly framework: Framework;
  /** The file that tells it. */
  readonly file: string;
}

/** How each is told by an import, and by a requirement; the first that is found counts. */
const signs: readonly (readonly [Framework, imports: RegExp, requirement: RegExp])[] = [
  [
    'lightning',
    /^\s*(?:import|from)\s+(?:lightning|pytorch_lightning)\b/m,
    /^(?:lightning|pytorch[-_]lightning)\b/,
  ],
  [
    'trainer',
    /^\s*from\s+(?:transformers\s+import\s+[^#]*?\b(?:Seq2Seq)?Train(?:er|ingArguments)\b|trl\s+import)/m,
    /^trl\b/,
  ],
  ['accelerate', /^\s*(?:import|from)\s+accelerate\b/m, /^accelerate\b/],
  ['deepspeed', /^\s*(?:import|from)\s+deepspeed\b/m, /^deepspeed\b/],
  ['trainer', /^\s*(?:import|from)\s+transformers\b/m, /^transformers\b/],
  ['peft', /^\s*(?:import|from)\s+peft\b/m, /^peft\b/],
  ['torchrun', /^\s*(?:import|from)\s+torch\.distributed\b|\btorchrun\b/m, /^$/],
];

/**
 * The framework that a project trains with: by what its programs import, else by what it requires.
 *
 * @example
 * recogniseFramework([{ name: 'requirements.txt', text: 'lightning==2.5' }]);
 * // { framework: 'lightning', file: 'requirements.txt' }
 */
export function recogniseFramework(files: readonly ProjectFile[]): Recognised | undefined {
  for (const [framework, imports] of signs) {
    const found = files.find(({ name, text }) => isProgram(name) && imports.test(text));
    if (found !== undefined) return { framework, file: found.name };
  }
  for (const [framework, , requirement] of signs) {
    const found = files.find(
      ({ name, text }) =>
        !isProgram(name) && requirementsIn(text).some((line) => requirement.test(line)),
    );
    if (found !== undefined) return { framework, file: found.name };
  }
  return undefined;
}

function isProgram(name: string): boolean {
  return name.endsWith('.py') || name.endsWith('.sh');
}

/** Lines of a requirements file, and quoted entries of a pyproject.toml; comments and options are not. */
function requirementsIn(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const bare = line.replace(/#.*$/, '').trim();
    const quoted = [...bare.matchAll(/["']([\w.-]+)/g)].map((match) => match[1] ?? '');
    const keyed = /^([\w.-]+)\s*=/.exec(bare)?.[1];
    return [...quoted, ...(keyed === undefined ? [] : [keyed]), bare].filter((word) => word !== '');
  });
}
