/** The actions of an allocator, one number each; 0 is an action of a PyTorch newer than this list. */
export const action = {
  other: 0,
  alloc: 1,
  freeRequested: 2,
  freeCompleted: 3,
  segmentAlloc: 4,
  segmentFree: 5,
  segmentMap: 6,
  segmentUnmap: 7,
  snapshot: 8,
  oom: 9,
} as const;

export const blockState = { inactive: 0, allocated: 1, pendingFree: 2 } as const;

/** The keys of the records; a string's place in this list is its number in the string table. */
const keys = [
  'action',
  'addr',
  'size',
  'stream',
  'time_us',
  'frames',
  'device_free',
  'name',
  'filename',
  'line',
  'device',
  'address',
  'total_size',
  'allocated_size',
  'active_size',
  'requested_size',
  'segment_type',
  'segment_pool_id',
  'is_expandable',
  'blocks',
  'state',
  'stage',
] as const;

const actions: readonly (readonly [string, number])[] = [
  ['alloc', action.alloc],
  ['free_requested', action.freeRequested],
  ['free_completed', action.freeCompleted],
  ['segment_alloc', action.segmentAlloc],
  ['segment_free', action.segmentFree],
  ['segment_map', action.segmentMap],
  ['segment_unmap', action.segmentUnmap],
  ['snapshot', action.snapshot],
  ['oom', action.oom],
];

const states: readonly (readonly [string, number])[] = [
  ['inactive', blockState.inactive],
  ['active_allocated', blockState.allocated],
  ['active_pending_free', blockState.pendingFree],
  ['active_awaiting_free', blockState.pendingFree],
];

export const knownStrings: readonly string[] = [
  ...keys,
  ...actions.map(([word]) => word),
  ...states.map(([word]) => word),
];

type Key = (typeof keys)[number];

/** The number of a key in the string table. */
export function keyId(key: Key): number {
  return keys.indexOf(key);
}

/** Keys above have numbers below this, so a set of them is the bits of one integer. */
export const keyCount = keys.length;

const stateFrom = keyCount + actions.length;
const actionCodes = Uint8Array.from(actions, ([, code]) => code);
const stateCodes = Uint8Array.from(states, ([, code]) => code);

/** The action that a string stands for, by the string's number. */
export function actionOf(string: number): number {
  return actionCodes[string - keyCount] ?? action.other;
}

/** The state of a block that a string stands for; undefined when it is none. */
export function stateOf(string: number): number | undefined {
  return stateCodes[string - stateFrom];
}
