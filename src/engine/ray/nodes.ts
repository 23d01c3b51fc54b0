import { MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import { objectIn, objectsIn, textIn } from '../json-values.js';
import type { RayHttp } from './http.js';

/** A node of the cluster that is alive. */
export interface RayNode {
  readonly id: string;
  readonly name: string;
  readonly ip: string;
  readonly isHead: boolean;
  readonly gpus: number;
  /** Ray's word for the card, such as `A100-80G`; empty where it has none. */
  readonly type: string;
  /** How jobs ask for that type; `none` where they cannot. */
  readonly typeBy: 'resource' | 'label' | 'none';
  /** Of each GPU, as the driver on the node says. */
  readonly gpuBytes: Known<number>;
}

/** As many as Ray lists at most. */
const maxNodes = 10_000;
const typeResource = 'accelerator_type:';
export const typeLabel = 'ray.io/accelerator-type';

/** The nodes that take jobs, with their GPUs. */
export async function readNodes(http: RayHttp): Promise<readonly RayNode[]> {
  const listed = await http.get(`/api/v0/nodes?detail=1&limit=${maxNodes}`);
  // What the drivers say comes from another list; without it the cards are known by their names.
  const summary = await http.get('/nodes?view=summary').catch(() => undefined);
  return nodesIn(listed, summary);
}

/** The nodes in what the two lists say. */
export function nodesIn(listed: unknown, summary: unknown): readonly RayNode[] {
  const rows = objectsIn(objectIn(objectIn(objectIn(listed)['data'])['result'])['result']);
  const drivers = gpuBytesByNode(summary);
  const alive = rows.filter(({ state }) => state === 'ALIVE');
  return alive.map((row) => {
    const id = textIn(row['node_id']);
    const ip = textIn(row['node_ip']);
    const resources = objectIn(row['resources_total']);
    const named = Object.keys(resources).find((name) => name.startsWith(typeResource));
    const label = textIn(objectIn(row['labels'])[typeLabel]);
    return {
      id,
      ip,
      name: textIn(row['node_name']) || ip,
      isHead: row['is_head_node'] === true,
      gpus: Math.floor(numberOf(resources['GPU']) ?? 0),
      type: named?.slice(typeResource.length) ?? label,
      typeBy: named !== undefined ? 'resource' : label === '' ? 'none' : 'label',
      gpuBytes: drivers.get(id) ?? 'unknown',
    };
  });
}

/** The smallest GPU of each node that its driver tells of. */
function gpuBytesByNode(summary: unknown): ReadonlyMap<string, number> {
  const rows = objectsIn(objectIn(objectIn(summary)['data'])['summary']);
  return new Map(
    rows.flatMap((row) => {
      const mebibytes = objectsIn(row['gpus']).flatMap((gpu) => {
        const found = numberOf(gpu['memoryTotal']);
        return found === undefined ? [] : [found];
      });
      const id = textIn(objectIn(row['raylet'])['nodeId']);
      if (mebibytes.length === 0 || id === '') return [];
      return [[id, Math.floor(Math.min(...mebibytes) * MiB)] as const];
    }),
  );
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(Math.floor(value)) && value >= 0
    ? value
    : undefined;
}
