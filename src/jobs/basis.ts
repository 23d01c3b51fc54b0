/**
 * What a figure of a reservation rests on. `unknown`: nothing is known of the job, and the figure is
 * what a whole device can be loaded with.
 */
export const bases = ['stated', 'estimated', 'measured', 'unknown'] as const;
export type Basis = (typeof bases)[number];
