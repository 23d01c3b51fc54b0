import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { cardOf, type OfferedCard } from '../cluster.js';
import { objectIn, objectsIn, textIn } from '../job-folder.js';
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

/** The configuration of a cluster. */
export interface RaySettings {
  /** Of the dashboard. */
  readonly address?: string | undefined;
  /** Bytes of a GPU, by its type in Ray. */
  readonly gpuBytes?: Readonly<Record<string, number>> | undefined;
}

/** GPUs of one type and size that nodes have. */
export interface RayOffer extends OfferedCard {
  /** Empty where Ray names none. */
  readonly type: string;
  readonly typeBy: RayNode['typeBy'];
  /** On one node, at most. */
  readonly count: number;
}

/** All kinds of GPU of a cluster: the configuration, else the driver, else the name says its size. */
export function rayOffers(
  nodes: readonly RayNode[],
  { gpuBytes = {} }: RaySettings,
  configured: readonly GpuEntry[],
): readonly RayOffer[] {
  const offers = nodes
    .filter(({ gpus }) => gpus > 0)
    .map((node) => offerOf(node, gpuBytes, configured));
  const kinds = new Map<string, RayOffer>();
  for (const offer of offers) {
    const kind = `${offer.type} ${offer.capacityBytes}`;
    const count = Math.max(offer.count, kinds.get(kind)?.count ?? 0);
    kinds.set(kind, { ...offer, count });
  }
  return [...kinds.values()];
}

function offerOf(
  node: RayNode,
  gpuBytes: Readonly<Record<string, number>>,
  configured: readonly GpuEntry[],
): RayOffer {
  const { type, typeBy, gpus: count } = node;
  const card = cardOf(type, [], gpuBytes, configured);
  const isSaid = gpuBytes[type === '' ? 'gpu' : type] !== undefined;
  const fromDriver = isKnown(node.gpuBytes) && !isSaid;
  const size = fromDriver ? { capacityBytes: node.gpuBytes, isAmbiguous: false } : {};
  return { type, typeBy, count, ...card, ...size };
}
