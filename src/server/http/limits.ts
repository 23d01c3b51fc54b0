const mib = 1024 * 1024;

/** Limits for one client, and for all of them together. */
export const serverLimits = {
  /** A job with a long command and its environment takes some 100 KiB; nothing else comes near. */
  bodyBytes: mib,
  /** Of those who have not shown yet who they are: a token, and room around it. */
  strangersBodyBytes: 4 * 1024,
  /** Of all bodies that are still coming in: half-sent ones must not fill the memory. */
  incomingBodyBytes: 64 * mib,
  /** Of one body: the longest command and environment there are come to half of it. */
  bodyValues: 25_000,
  /** The deepest field of ours lies at 3. */
  bodyDepth: 16,
  /** The longest address of ours, with every option, takes some 300 letters. */
  urlCharacters: 8 * 1024,
  /** Of all headers together. Cookies of other programs on the same host name come along. */
  headerBytes: 32 * 1024,
  /** Somebody who opens connections and says nothing holds one of them no longer than this. */
  headersSeconds: 10,
  /** For a whole request to arrive: a body of 1 MiB over a poor line takes half of it. */
  requestSeconds: 30,
  /** An open connection with nothing on it. Longer than a scrape interval is of no use. */
  keepAliveSeconds: 30,
  /**
   * A client that sends nothing of its request, or takes nothing of its answer, for so long is let
   * go. While we make the answer it is not the client that is silent, and no time counts.
   */
  silentSeconds: 60,
  /** All event streams, and as many again for everything else. */
  connections: 4096,
  /**
   * Connections that wait to be accepted, one in each turn of the event loop. With the usual 511 a flood
   * fills it; the kernel then drops new ones, and their clients try again after 1, 3, 7 and 15 seconds.
   */
  waitingConnections: 4096,
  /** Connections that have not shown a token; a quarter, so that the rest is for those who have. */
  strangerConnections: 1024,
  /** Of one account of this machine on the local socket; commands need one each. */
  localConnections: 256,
  /** On one connection, while earlier ones are still being answered: browsers and curl send none. */
  pipelinedRequests: 8,
  /** Each costs some 20 KiB and a write at every event: see bench/streams.mjs. */
  eventStreams: 2000,
  /** Changes of jobs that one slow stream may lag behind; then it is cut off and resumes by id. */
  streamBacklogBytes: mib,
  /** Changes that are fetched at once while a stream catches up. */
  catchUpEvents: 100,
  /** Encoded changes that are kept for those who come back: all of them come at once. */
  keptEventBytes: 8 * mib,
  heartbeatSeconds: 15,
  /** Heartbeats that a stream may miss before it counts as dead. */
  missedHeartbeats: 4,
  /** Browsers and clients come back after this. */
  retryMilliseconds: 2000,
  /** Answers that were made and not yet taken by slow clients, all together. */
  unsentBytes: 256 * mib,
  /** The same of answers to those without a token: the page, a hundred times over. */
  strangersUnsentBytes: 32 * mib,
  /** Each may start Python and trace a model on all cores. */
  answersAtOnce: 4,
  /** Of one log, in one answer. */
  logBytes: mib,
  /** In one answer, which takes some 3 ms to write; longer lists are fetched in pages. */
  jobsListed: 1000,
  historyPoints: 5000,
  historySeconds: 31 * 24 * 3600,
  /** Wrong tokens from one address in a minute, before answers to more of them are held back. */
  wrongTokens: 10,
  /** So long each. Right tokens are answered at once. */
  wrongTokenSeconds: 1,
  /** Answers that are held back at the same time; more are sent at once. */
  heldAnswers: 1000,
  /** Time for open requests to end when the server closes. */
  closeSeconds: 5,
  /** The page is some 200 KiB. Beyond this the folder is not the page. */
  webBytes: 64 * mib,
  webFiles: 1000,
} as const;
