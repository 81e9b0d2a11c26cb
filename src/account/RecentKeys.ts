/** D2: whose a key is that was looked up within the last half second, without a fiber to wait in. */
import { Context, Layer } from "effect"
import type { Account } from "./Authentication.ts"

type Who = typeof Account.Service

/** A revocation is seen within a second, by every instance: what the table said is believed for half of one. */
export const believed = 500

/** What the table said of a key, and when it was asked, on the clock that nobody sets. */
export interface Known {
  readonly account: Who
  readonly asOf: number
}

const most = 10_000

export class RecentKeys extends Context.Service<RecentKeys, {
  readonly find: (key: string) => Who | undefined
  readonly note: (key: string, known: Known) => void
}>()("tickerline/account/RecentKeys") {
  static readonly layer = Layer.sync(RecentKeys, () => {
    // Emptied twice a second: the keys themselves stay in memory no longer than the requests that brought them.
    const keys = new Map<string, Known>()
    let emptied = performance.now()
    const empty = (now: number) => {
      if (now - emptied < believed && keys.size < most) return
      keys.clear()
      emptied = now
    }

    return {
      find: (key) => {
        const now = performance.now()
        const known = keys.get(key)
        return known !== undefined && now - known.asOf < believed ? known.account : undefined
      },
      note: (key, known) => {
        empty(performance.now())
        keys.set(key, known)
      },
    }
  })
}
