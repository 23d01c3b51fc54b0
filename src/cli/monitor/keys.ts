/** What a key does on the live screen. */
export type MonitorAction =
  | 'quit'
  | 'interrupt'
  | 'suspend'
  | 'help'
  | 'up'
  | 'down'
  | 'page-up'
  | 'page-down'
  | 'first'
  | 'last'
  | 'left'
  | 'right'
  | 'command-start'
  | 'command-end'
  | 'sort-prompt'
  | 'sort-previous'
  | 'sort-next'
  | 'reverse'
  | 'filter'
  | 'tree'
  | 'scope'
  | 'layout'
  | 'details'
  | 'alerts'
  | 'tag'
  | 'clear'
  | 'signal-interrupt'
  | 'signal-terminate'
  | 'signal-kill'
  | 'theme'
  | 'mouse';

export interface KeyBinding {
  readonly action: MonitorAction;
  /** As the reader of keys names them. */
  readonly keys: readonly string[];
  /** As people write them. */
  readonly shown: string;
  readonly does: string;
  /** One word for the foot of the screen, where it is named there. */
  readonly short?: string;
  /** The key for the same in nvitop 1.7 and in btop 1.4, or `no`. */
  readonly nvitop: string;
  readonly btop: string;
}

/** Every key there is: the screen of help, docs/monitor.md and what is done all come from here. */
export const keyBindings: readonly KeyBinding[] = [
  {
    action: 'quit',
    keys: ['q', 'Q'],
    shown: 'q',
    does: 'leave',
    short: 'leave',
    nvitop: 'q',
    btop: 'q',
  },
  {
    action: 'help',
    keys: ['h', '?', 'f1'],
    shown: 'h ? F1',
    does: 'this help',
    short: 'help',
    nvitop: 'h ?',
    btop: 'h ? F1',
  },
  {
    action: 'up',
    keys: ['up', 'k'],
    shown: 'Up k',
    does: 'select the process above',
    nvitop: 'Up',
    btop: 'Up',
  },
  {
    action: 'down',
    keys: ['down', 'j', 'tab'],
    shown: 'Down j Tab',
    does: 'select the process below',
    nvitop: 'Down Tab',
    btop: 'Down',
  },
  {
    action: 'page-up',
    keys: ['page-up', '['],
    shown: 'PageUp [',
    does: 'one page up',
    nvitop: 'PageUp [',
    btop: 'PageUp',
  },
  {
    action: 'page-down',
    keys: ['page-down', ']'],
    shown: 'PageDown ]',
    does: 'one page down',
    nvitop: 'PageDown ]',
    btop: 'PageDown',
  },
  {
    action: 'first',
    keys: ['home', 'g'],
    shown: 'Home g',
    does: 'the first process',
    nvitop: 'Home',
    btop: 'Home',
  },
  {
    action: 'last',
    keys: ['end', 'G'],
    shown: 'End G',
    does: 'the last process',
    nvitop: 'End',
    btop: 'End',
  },
  {
    action: 'left',
    keys: ['left'],
    shown: 'Left',
    does: 'scroll the command lines left',
    nvitop: 'Left',
    btop: 'no',
  },
  {
    action: 'right',
    keys: ['right'],
    shown: 'Right',
    does: 'scroll the command lines right',
    nvitop: 'Right',
    btop: 'no',
  },
  {
    action: 'command-start',
    keys: ['^', 'ctrl-a'],
    shown: '^ Ctrl-A',
    does: 'the beginning of the command lines',
    nvitop: '^ Ctrl-A',
    btop: 'no',
  },
  {
    action: 'command-end',
    keys: ['$', 'ctrl-e'],
    shown: '$ Ctrl-E',
    does: 'the end of the command lines',
    nvitop: '$ Ctrl-E',
    btop: 'no',
  },
  {
    action: 'details',
    keys: ['enter'],
    shown: 'Enter',
    does: 'all about the selected process, with its memory over time',
    short: 'details',
    nvitop: 'Enter',
    btop: 'Enter',
  },
  {
    action: 'filter',
    keys: ['/', 'f'],
    shown: '/ f',
    does: 'filter by words: user, command, pid, job, device, container',
    short: 'filter',
    nvitop: 'no',
    btop: 'f /',
  },
  {
    action: 'sort-prompt',
    keys: ['o'],
    shown: 'o + letter',
    does: 'sort by a column, chosen by its letter',
    short: 'sort',
    nvitop: 'o + letter',
    btop: 'no',
  },
  {
    action: 'sort-previous',
    keys: [','],
    shown: ',',
    does: 'sort by the column to the left',
    nvitop: ',',
    btop: 'Left',
  },
  {
    action: 'sort-next',
    keys: ['.'],
    shown: '.',
    does: 'sort by the column to the right',
    nvitop: '.',
    btop: 'Right',
  },
  {
    action: 'reverse',
    keys: ['r'],
    shown: 'r',
    does: 'reverse the order',
    nvitop: '/',
    btop: 'r',
  },
  {
    action: 'tree',
    keys: ['t'],
    shown: 't',
    does: 'show processes as a tree, below their parents',
    short: 'tree',
    nvitop: 't',
    btop: 'e',
  },
  {
    action: 'scope',
    keys: ['d'],
    shown: 'd',
    does: 'processes of all GPUs, of one device after another, of the host',
    short: 'device',
    nvitop: 'no',
    btop: 'no',
  },
  {
    action: 'layout',
    keys: ['v'],
    shown: 'v',
    does: 'more room for devices, or for processes',
    short: 'room',
    nvitop: 'a f c',
    btop: '1 2 3 4 5',
  },
  {
    action: 'alerts',
    keys: ['a'],
    shown: 'a',
    does: 'all alerts, newest first',
    short: 'alerts',
    nvitop: 'no',
    btop: 'no',
  },
  {
    action: 'tag',
    keys: ['space'],
    shown: 'Space',
    does: 'tag the selected process; signals go to all that are tagged',
    short: 'tag',
    nvitop: 'Space',
    btop: 'no',
  },
  {
    action: 'clear',
    keys: ['escape'],
    shown: 'Esc',
    does: 'back; else clear tags, filter and selection',
    nvitop: 'Esc',
    btop: 'Esc',
  },
  {
    action: 'signal-terminate',
    keys: ['T'],
    shown: 'T',
    does: 'ask the process to end (SIGTERM), after you confirm',
    short: 'end',
    nvitop: 'T',
    btop: 't',
  },
  {
    action: 'signal-kill',
    keys: ['K'],
    shown: 'K',
    does: 'kill it (SIGKILL), after you confirm',
    short: 'kill',
    nvitop: 'K',
    btop: 'k',
  },
  {
    action: 'signal-interrupt',
    keys: ['I'],
    shown: 'I',
    does: 'interrupt it (SIGINT, as Ctrl-C does), after you confirm',
    nvitop: 'I Ctrl-C',
    btop: 's',
  },
  {
    action: 'theme',
    keys: ['c'],
    shown: 'c',
    does: 'the next colour theme',
    short: 'theme',
    nvitop: 'no',
    btop: 'in its menu',
  },
  {
    action: 'mouse',
    keys: ['m'],
    shown: 'm',
    does: 'mouse off and on, to select text with it',
    nvitop: 'no',
    btop: 'no',
  },
  {
    action: 'interrupt',
    keys: ['ctrl-c'],
    shown: 'Ctrl-C',
    does: 'leave, with exit code 130',
    nvitop: 'interrupts the process',
    btop: 'Ctrl-C',
  },
  {
    action: 'suspend',
    keys: ['ctrl-z'],
    shown: 'Ctrl-Z',
    does: 'suspend; fg comes back',
    nvitop: 'no',
    btop: 'Ctrl-Z',
  },
];

/** What the mouse does. */
export const mouseUses = [
  { shown: 'click on a process', does: 'select it; a second click shows its details' },
  { shown: 'click on a column title', does: 'sort by it; again: reverse' },
  { shown: 'click on a device', does: 'show only its processes; again: all' },
  { shown: 'wheel', does: 'scroll the processes' },
] as const;

const byKey = new Map(keyBindings.flatMap(({ keys, action }) => keys.map((key) => [key, action])));

export function actionOf(key: string): MonitorAction | undefined {
  return byKey.get(key);
}
