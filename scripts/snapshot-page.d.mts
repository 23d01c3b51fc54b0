import type { Plugin } from 'vite';
import type { SnapshotScripts } from '../src/report/snapshot-html.js';

export function snapshotScripts(): Promise<SnapshotScripts>;
export function viteSnapshotPage(): Plugin;
