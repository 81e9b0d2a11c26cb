/**
 * How far a replica is behind, measured: how long ago the primary was first seen beyond where the replica is now, by
 * this process' clock. What replicas tell of it is no measure: the time of the last commit grows while nothing is
 * written, and all that was received is replayed where the link is cut.
 */

interface Seen {
  readonly at: number
  readonly position: number
}

/** So many positions are remembered: ten minutes of looks, each with a write before it. */
const most = 2_400

/** Where the primary was, and when; `at` in milliseconds, `position` in bytes of WAL. */
export const makeWalHistory = () => {
  const seen: Array<Seen> = []
  return {
    /** After a failover the primary may be behind what was seen before, which then is of another history. */
    note: ({ at, position }: Seen) => {
      const last = seen.at(-1)?.position ?? -1
      if (position < last) seen.length = 0
      if (position !== last) seen.push({ at, position })
      if (seen.length > most) seen.shift()
    },
    /** Milliseconds; `Infinity` for one that is further behind than is remembered. */
    behind: (position: number, now: number) => {
      const [first] = seen
      if (first === undefined || position < first.position) return Infinity
      const beyond = seen.find((one) => one.position > position)
      return beyond === undefined ? 0 : now - beyond.at
    },
  }
}
