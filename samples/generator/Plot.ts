/**
 * What happens to a company in its two years. A plot says what is decided (gaps, raises, splits, renames); what follows
 * from it (prices, notices of the exchange, floats, filings) is worked out elsewhere. Days are places in the list of
 * sessions; prices are USD in shares of the first day, before any split.
 */
import type { Dice } from "./Random.ts"
import { type TopicName, topicNames } from "./Topics.ts"

export interface Gap {
  readonly session: number
  /** The open over the previous close, the high and the close over the open: fractions. */
  readonly open: number
  readonly high: number
  readonly close: number
  /** Volume of the day, in times of the usual volume. */
  readonly volume: number
  readonly topic: TopicName | null
  /** The news came on the evening before, and the price ran after hours already. */
  readonly evening: boolean
  /** The anomaly detector noticed. */
  readonly flagged: boolean
}

export interface Raise {
  readonly session: number
  readonly kind: "offering" | "direct" | "atm" | "line" | "note" | "preferred"
  /** New shares, as a fraction of those outstanding. */
  readonly part: number
}

export interface Split {
  /** So many shares become so many: 20 and 1 is a reverse split. */
  readonly from: number
  readonly to: number
  readonly voteFiled: number
  readonly vote: number
  /** Left out: the board has not used what the holders approved, or withdrew it. */
  readonly effective?: number
  readonly withdrawn?: number
}

export interface Trouble {
  readonly session: number
  readonly kind:
    | "late_filing"
    | "stockholders_equity"
    | "audit_committee"
    | "annual_meeting"
    | "public_holders"
    | "market_value_listed_securities"
    | "market_value_public_shares"
    | "other"
  readonly regained?: number
}

export interface Plot {
  readonly exchange: "NASDAQ" | "NYSE" | "NYSE American" | "OTC" | null
  readonly countries: readonly [string, ...ReadonlyArray<string>]
  /** Ordinary shares that one depositary share stands for. */
  readonly adsRatio: number | null
  /** The session of the first price; later than 0 is an IPO. Null: no prices are known. */
  readonly first: number | null
  readonly path: ReadonlyArray<readonly [session: number, dollars: number]>
  /** How far a day's close wanders, as a fraction. */
  readonly swing: number
  /** Shares on the first day, in thousands. */
  readonly shares: number
  /** The part of the shares that changes hands on a usual day. */
  readonly turnover: number
  readonly gaps: ReadonlyArray<Gap>
  /** How many unplanned gaps there are besides. */
  readonly restless: number
  readonly raises: ReadonlyArray<Raise>
  readonly split?: Split
  readonly renames: ReadonlyArray<number>
  readonly troubles: ReadonlyArray<Trouble>
  /** What the ownership filings hold. */
  readonly holders: "full" | "institutions" | "placeholders" | "none"
  readonly delisted?: number
}

/** The day of a gap; what is not told is left to the dice. */
export const gap = (dice: Dice, session: number, open: number, more: Partial<Gap> = {}): Gap => {
  const high = dice.between(0.08, 0.3 + open)
  return {
    session,
    open,
    high,
    close: dice.between(-0.25, high * 0.8),
    volume: dice.between(15, 90),
    topic: dice.pick(topicNames),
    evening: dice.chance(0.5),
    flagged: true,
    ...more,
  }
}

/** What most plots share. */
export const plain = {
  exchange: "NASDAQ",
  countries: ["US"],
  adsRatio: null,
  first: 0,
  swing: 0.05,
  turnover: 0.012,
  gaps: [],
  restless: 10,
  raises: [],
  renames: [],
  troubles: [],
  holders: "full",
} as const satisfies Partial<Plot>
