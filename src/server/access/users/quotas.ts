import { Failure } from '../../../failure.js';
import type { QuotaOf } from '../../../jobs/quota.js';
import { ownerName } from '../../../jobs/types.js';
import { quotaOf } from '../people.js';
import type { UserStore } from './user-store.js';

/**
 * The quotas of users, as they are now. Where the users cannot be read, jobs of users wait: what
 * they may have is unknown. Those of the owner go on.
 */
export function quotasFrom(users: Pick<UserStore, 'byName'>): QuotaOf {
  return (name) => {
    if (name === ownerName) return undefined;
    try {
      const user = users.byName(name);
      return user && quotaOf(user);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return { maxJobs: 0 };
    }
  };
}
