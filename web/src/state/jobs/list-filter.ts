import { createStore } from '../live/store.js';
import type { JobFilter } from './job-list.js';

/** Kept while one looks at a job and comes back. */
export const listFilter = createStore<JobFilter>({ state: 'all', search: '' });
