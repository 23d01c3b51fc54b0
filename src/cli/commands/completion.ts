import type { Command } from 'commander';
import { knownGpus } from '../../estimate/cards/gpu-table.js';
import { shippedCatalogue } from '../../model/names/find-model.js';
import { type CommandModule, printJson } from '../io.js';
import { oneOfArgument } from '../options/arguments.js';

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/** Set by the program: its commands with all their options. */
export type WholeProgram = () => Promise<Command>;

/** A script that lets a shell complete commands, options, and names of models and cards. */
export function completionCommand(whole: WholeProgram): CommandModule {
  return {
    define(command, { io, action }) {
      command
        .argument('<shell>', shells.join(', '), oneOfArgument('The shell', shells))
        .option('--json', 'print the words as one JSON document on stdout')
        .addHelpText(
          'after',
          `
Examples:
  plimsoll completion bash > ~/.local/share/bash-completion/completions/plimsoll
  plimsoll completion zsh > "\${fpath[1]}/_plimsoll"
  plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish`,
        )
        .action(
          action(async (shell: Shell, given: { readonly json?: boolean }) => {
            const words = wordsOf(await whole());
            if (given.json) printJson(io, { ...words });
            else io.stdout.write(scripts[shell](words));
            return 0;
          }),
        );
    },
  };
}

interface CompletionWords {
  readonly commands: readonly CommandWords[];
  readonly models: readonly string[];
  readonly gpus: readonly string[];
}

interface CommandWords {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionWords[];
}

interface OptionWords {
  readonly flag: string;
  readonly takesValue: boolean;
}

function wordsOf(program: Command): CompletionWords {
  const shown = program.createHelp().visibleCommands(program);
  return {
    commands: shown.map((command) => ({
      name: command.name(),
      summary: command.description(),
      options: command.options.flatMap(({ long, hidden, required, optional }) =>
        long === undefined || hidden ? [] : [{ flag: long, takesValue: required || optional }],
      ),
    })),
    models: shippedCatalogue().models.map(({ name }) => name),
    gpus: knownGpus.map(({ name, aliases }) => (aliases[0] ?? name).replaceAll(' ', '-')),
  };
}

/** Commands whose words are models. */
const takeModels = ['estimate', 'plan', 'card'];

const scripts: Readonly<Record<Shell, (words: CompletionWords) => string>> = {
  bash: ({ commands, models, gpus }) => `# Completion of plimsoll for bash.
_plimsoll() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word == -- ]]; then COMPREPLY=($(compgen -f -- "$current")); return; fi
  done
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')}" -- "$current"))
    return
  fi
  if [[ $before == --gpu ]]; then
    COMPREPLY=($(compgen -W "${gpus.join(' ')}" -- "$current"))
    return
  fi
  if [[ $current != -* ]]; then
    case \${COMP_WORDS[1]} in
      ${takeModels.join('|')}) COMPREPLY=($(compgen -W "${models.join(' ')}" -- "$current") $(compgen -f -- "$current")) ;;
      *) COMPREPLY=($(compgen -f -- "$current")) ;;
    esac
    return
  fi
  case \${COMP_WORDS[1]} in
${commands.map(({ name, options }) => `    ${name}) COMPREPLY=($(compgen -W "${options.map(({ flag }) => flag).join(' ')}" -- "$current")) ;;`).join('\n')}
  esac
}
complete -o filenames -F _plimsoll plimsoll
`,
  zsh: ({ commands, models, gpus }) => `#compdef plimsoll
# Completion of plimsoll for zsh.
_plimsoll() {
  if ((CURRENT == 2)); then
    local -a commands=(
${commands.map(({ name, summary }) => `      ${quoted(`${name}:${summary.replaceAll(':', ' -')}`)}`).join('\n')}
    )
    _describe command commands
    return
  fi
  if [[ \${words[CURRENT-1]} == --gpu ]]; then compadd -- ${gpus.join(' ')}; return; fi
  if [[ \${words[CURRENT]} == -* ]]; then
    case \${words[2]} in
${commands.map(({ name, options }) => `      ${name}) compadd -- ${options.map(({ flag }) => flag).join(' ')} ;;`).join('\n')}
    esac
    return
  fi
  case \${words[2]} in
    ${takeModels.join('|')}) compadd -- ${models.join(' ')} ;;
  esac
  _files
}
compdef _plimsoll plimsoll
`,
  fish: ({ commands, models, gpus }) => `# Completion of plimsoll for fish.
complete -c plimsoll -n __fish_use_subcommand -f
${commands
  .flatMap(({ name, summary, options }) => [
    `complete -c plimsoll -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
    ...options.map(({ flag, takesValue }) => {
      const values = flag === '--gpu' ? ` -f -a ${quoted(gpus.join(' '))}` : '';
      return `complete -c plimsoll -n '__fish_seen_subcommand_from ${name}' -l ${flag.slice(2)}${takesValue ? ' -r' : ''}${values}`;
    }),
  ])
  .join('\n')}
complete -c plimsoll -n '__fish_seen_subcommand_from ${takeModels.join(' ')}' -a ${quoted(models.join(' '))}
`,
};

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
