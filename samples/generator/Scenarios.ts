/**
 * Scenarios that define what happens to a company over two years. The company's prices, notices, floats and filings are
 * derived from its scenario. Dates are session numbers (see `Calendar.ts`). Prices are in USD per share, with the share
 * count of the first day, before any split.
 */
import { lastSessionNumber } from "./Calendar.ts"
import { companyTopicNames, type NewsTopicName } from "./NewsTopics.ts"
import type { RandomSource } from "./Random.ts"

/** A day on which the opening price differs significantly from the previous close. */
export interface PriceGap {
  readonly session: number
  /** The change from the previous close to the open, as a fraction. For example, 0.2 means +20%. */
  readonly open: number
  /** The change from the open to the high, as a fraction. */
  readonly high: number
  /** The change from the open to the close, as a fraction. */
  readonly close: number
  /** The volume as a multiple of the average volume. */
  readonly volumeMultiple: number
  /** The topic of the news that causes the gap, or null if there is no news. */
  readonly topic: NewsTopicName | null
  /** Whether the news is published the evening before, which moves the price in after-hours trading. */
  readonly startsEveningBefore: boolean
  /** Whether the anomaly detector flags the day. */
  readonly isFlagged: boolean
}

/** A capital raise planned in the scenario. */
export interface PlannedRaise {
  readonly session: number
  /** `direct` is a registered direct offering, `line` is an equity line, and `note` is a convertible note. */
  readonly kind: "offering" | "direct" | "atm" | "line" | "note" | "preferred"
  /** The number of new shares as a fraction of the shares outstanding. */
  readonly dilution: number
}

/** A split planned in the scenario, including its preparatory steps. */
export interface StockSplit {
  /** `from` old shares become `to` new shares. For example, 20 to 1 is a reverse split. */
  readonly from: number
  readonly to: number
  /** The session in which the proxy statement is filed. */
  readonly voteFiled: number
  /** The session of the shareholder vote. */
  readonly vote: number
  /** The session in which the split takes effect. Absent if the board does not carry out the split. */
  readonly effective?: number
  /** The session in which the board withdraws the split. */
  readonly withdrawn?: number
}

/** A violation of a Nasdaq listing rule other than the minimum bid price rule. */
export interface ListingDeficiency {
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
  /** The session in which the company regains compliance. Absent if it never does. */
  readonly regainedSession?: number
}

/** The scenario of a company: everything that is planned to happen to it. */
export interface CompanyScenario {
  readonly exchange: "NASDAQ" | "NYSE" | "NYSE American" | "OTC" | null
  /** Possible countries, from which one is chosen at random. */
  readonly countries: readonly [string, ...ReadonlyArray<string>]
  /** The number of ordinary shares per American depositary share, or null if the shares are not ADSs. */
  readonly adsRatio: number | null
  /**
   * The first session in which the shares trade. If it is greater than 0, it is the day of the IPO. Null if the company
   * has no prices.
   */
  readonly firstSession: number | null
  /** The points of the price path. The price moves in straight lines between them. */
  readonly pricePath: ReadonlyArray<readonly [session: number, dollars: number]>
  /** The size of the random daily price change, as a fraction of the price. */
  readonly volatility: number
  /** The shares outstanding on the first day, in thousands. */
  readonly shares: number
  /** The fraction of the shares outstanding that is traded on a normal day. */
  readonly turnover: number
  readonly gaps: ReadonlyArray<PriceGap>
  /** The number of random gaps to add to `gaps`. Random gaps close to other events are dropped. */
  readonly randomGaps: number
  readonly raises: ReadonlyArray<PlannedRaise>
  readonly split?: StockSplit
  /** The sessions in which the company changes its ticker symbol. */
  readonly renames: ReadonlyArray<number>
  readonly deficiencies: ReadonlyArray<ListingDeficiency>
  /** Determines which holders the ownership filings list. */
  readonly ownershipData: "full" | "institutions" | "placeholders" | "none"
  /** The session in which the company is delisted. */
  readonly delisted?: number
}

/** Creates a price gap in the given session. Properties that `overrides` does not contain are random. */
const makeGap = (random: RandomSource, session: number, open: number, overrides: Partial<PriceGap> = {}): PriceGap => {
  const high = random.between(0.08, 0.3 + open)
  return {
    session,
    open,
    high,
    close: random.between(-0.25, high * 0.8),
    volumeMultiple: random.between(15, 90),
    topic: random.pick(companyTopicNames),
    startsEveningBefore: random.chance(0.5),
    isFlagged: true,
    ...overrides,
  }
}

/** The values that most scenarios have in common. */
const defaults = {
  exchange: "NASDAQ",
  countries: ["US"],
  adsRatio: null,
  firstSession: 0,
  volatility: 0.05,
  turnover: 0.012,
  gaps: [],
  randomGaps: 10,
  raises: [],
  renames: [],
  deficiencies: [],
  ownershipData: "full",
} as const satisfies Partial<CompanyScenario>

/**
 * Plans a large company with a stable price and institutional holders. Affiliates hold exactly 0%. Everything that is
 * not listed here is as in most companies (`defaults`). `pricePath` lists trading sessions by number, with the price in
 * dollars, and prices between them are interpolated. `shares` are in thousands. The only planned gap is a fall by 11%
 * on bad earnings.
 */
const largeCap = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  exchange: "NYSE",
  pricePath: [[0, random.between(40, 120)], [250, random.between(45, 130)], [
    lastSessionNumber,
    random.between(50, 150),
  ]],
  volatility: 0.015,
  shares: random.integer(150_000, 900_000),
  turnover: 0.004,
  gaps: [
    makeGap(random, 180 + random.integer(0, 40), -0.11, {
      high: 0.03,
      close: 0.012,
      topic: "earnings",
      volumeMultiple: 5,
    }),
  ],
  randomGaps: 7,
  raises: [],
  ownershipData: "institutions",
})

/** A foreign company whose American depositary shares trade in the US. */
const foreignIssuer = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  countries: ["NO", "DE", "SE", "IE"],
  adsRatio: random.pick([0.5, 2, 10]),
  pricePath: [[0, random.between(8, 14)], [300, random.between(9, 20)], [lastSessionNumber, random.between(9, 18)]],
  volatility: 0.03,
  shares: random.integer(60_000, 120_000),
  gaps: [makeGap(random, 330 + random.integer(0, 30), 0.18, { topic: "contract", volumeMultiple: 20 })],
  deficiencies: [{ session: 210, kind: "annual_meeting", regainedSession: 260 }],
})

/** A company that files reports but has no prices. */
const unpriced = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  exchange: "OTC",
  firstSession: null,
  pricePath: [],
  shares: random.integer(3_000, 90_000),
  randomGaps: 0,
  ownershipData: "placeholders",
})

/** A company whose price rises until it carries out a three-for-one forward split. */
const forwardSplit = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  pricePath: [[0, random.between(60, 90)], [380, random.between(240, 300)], [
    lastSessionNumber,
    random.between(250, 330),
  ]],
  volatility: 0.03,
  shares: random.integer(30_000, 60_000),
  gaps: [makeGap(random, 352, 0.15, { topic: "earnings", volumeMultiple: 12 })],
  split: { from: 1, to: 3, voteFiled: 360, vote: 376, effective: 395 },
})

/** A special-purpose acquisition company that trades at about USD 10. */
const spac = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  firstSession: random.integer(60, 140),
  pricePath: [[0, 10], [lastSessionNumber, 10.8]],
  volatility: 0.002,
  shares: 28_750,
  turnover: 0.002,
  gaps: [],
  randomGaps: 1,
  deficiencies: [{ session: 410, kind: random.pick(["public_holders", "other"]) }],
  ownershipData: "institutions",
})

/** A company with late filings, a compliance plan, and a reprimand concerning its audit committee. */
const lateFiler = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  pricePath: [[0, random.between(2, 4)], [lastSessionNumber, random.between(1.6, 3)]],
  shares: random.integer(12_000, 30_000),
  gaps: [makeGap(random, 300, 0.25)],
  deficiencies: [
    { session: 100 + random.integer(0, 20), kind: "late_filing", regainedSession: 150 },
    { session: 360, kind: "late_filing" },
    { session: 250, kind: "audit_committee", regainedSession: 330 },
  ],
})

/** A company that has proposed a reverse split and whose shareholders have not voted yet. */
const pendingSplitVote = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  exchange: "NYSE American",
  pricePath: [[0, random.between(1.8, 2.5)], [lastSessionNumber, random.between(1.2, 1.6)]],
  shares: random.integer(30_000, 60_000),
  gaps: [makeGap(random, 444, 0.2)],
  split: { from: 50, to: 1, voteFiled: 470 + random.integer(0, 10), vote: lastSessionNumber + 14 },
})

/** A company whose shareholders approve a reverse split that the board then withdraws. */
const withdrawnSplit = (random: RandomSource): CompanyScenario => ({
  ...defaults,
  pricePath: [[0, 2], [lastSessionNumber, 2.6]],
  shares: random.integer(30_000, 60_000),
  gaps: [makeGap(random, 230, 0.3)],
  split: { from: 10, to: 1, voteFiled: 250, vote: 275, withdrawn: 300 + random.integer(0, 20) },
})

/**
 * Plans a company that goes through price spikes, dilution, a bid-price deficiency, a reverse split that restores
 * compliance, and a symbol change. All events happen at fixed session numbers, shifted by the same random number for
 * each company (`at`), so that their order and distances are the same. `makeGap` plans a day on which the price opens
 * higher than it closed before, by a fraction such as 0.85. Capital raises (`raises`) follow some of these days.
 */
const fullLifecycle = (random: RandomSource): CompanyScenario => {
  const shift = random.integer(-12, 12)
  const at = (session: number) => session + shift
  return {
    ...defaults,
    pricePath: [[0, random.between(3.5, 5)], [at(90), 2.6], [at(170), 1.3], [at(205), 0.62], [at(350), 0.34], [
      lastSessionNumber,
      0.2,
    ]],
    shares: random.integer(14_000, 22_000),
    gaps: [
      makeGap(random, at(60), 0.85, { volumeMultiple: 74, startsEveningBefore: true, close: 0.12 }),
      makeGap(random, at(120), 0.4, { startsEveningBefore: false }),
      makeGap(random, at(410), 0.55, { startsEveningBefore: true }),
    ],
    raises: [
      { session: at(61), kind: "offering", dilution: 0.25 },
      { session: at(121), kind: "direct", dilution: 0.2 },
      { session: at(190), kind: "note", dilution: 0.1 },
      { session: at(240), kind: "line", dilution: 0.15 },
      { session: at(411), kind: "atm", dilution: 0.3 },
    ],
    split: { from: 20, to: 1, voteFiled: at(262), vote: at(285), effective: at(340) },
    renames: [at(435)],
  }
}

/**
 * Plans a company that repeatedly sells shares under its shelf registration: on each of five days its price jumps
 * (`gaps`), and on the next day it sells new shares (`raises`), whose number is `dilution` times that of the existing
 * ones. `at` returns a random session near the given one.
 */
const serialIssuer = (random: RandomSource): CompanyScenario => {
  const at = (session: number) => session + random.integer(-15, 15)
  const jumpSessions = [at(55), at(150), at(270), at(380), at(455)]
  return {
    ...defaults,
    exchange: random.pick(["NASDAQ", "NASDAQ", "NYSE American"]),
    pricePath: [[0, random.between(4, 9)], [200, random.between(3, 12)], [350, random.between(2.5, 6)], [
      lastSessionNumber,
      random.between(2, 9),
    ]],
    shares: random.integer(18_000, 45_000),
    gaps: jumpSessions.map((session) => makeGap(random, session, random.between(0.2, 0.7))),
    raises: jumpSessions.map((session, index) => ({
      session: session + 1,
      kind: index % 2 === 0
        ? random.pick(["atm", "offering", "direct"])
        : random.pick(["direct", "preferred", "offering"]),
      dilution: random.between(0.06, 0.2),
    })),
    deficiencies: random.chance(0.4)
      ? [{ session: at(300), kind: "stockholders_equity", regainedSession: at(420) }]
      : [],
  }
}

/**
 * Plans a small company that is promoted after its IPO and then loses most of its value in a single day, in the session
 * `crash`. Until then, its price rises to `times` the price at the IPO. In a gap, `open` is the change from the
 * previous close to the opening price, and `high` and `close` are changes from the opening price, all as fractions.
 */
const pumpAndDump = (random: RandomSource): CompanyScenario => {
  const firstSession = random.pick([40, 110, 180, 260, 330, 400, 440, 465])
  const crash = firstSession + Math.min(random.integer(25, 60), lastSessionNumber - firstSession - 4)
  const price = random.between(4, 6)
  const times = random.between(3, 7)
  return {
    ...defaults,
    countries: ["HK", "CN", "SG", "MY", "JP", "US"],
    adsRatio: random.chance(0.3) ? random.pick([2, 5, 0.5]) : null,
    firstSession,
    pricePath: [[firstSession, price], [crash - 1, price * times], [crash, price * times * 0.25], [
      lastSessionNumber,
      price * random.between(0.3, 0.5),
    ]],
    shares: random.integer(9_000, 16_000),
    gaps: [
      makeGap(random, firstSession + 6, 0.35, { topic: null, startsEveningBefore: false }),
      makeGap(random, crash - 4, 0.3, { topic: "promotion", startsEveningBefore: false }),
      {
        session: crash,
        open: -0.12,
        high: 0.04,
        close: -0.72,
        volumeMultiple: random.between(40, 120),
        topic: null,
        startsEveningBefore: false,
        isFlagged: true,
      },
    ],
    randomGaps: 4,
    raises: [],
    ownershipData: random.pick(["full", "full", "placeholders"]),
  }
}

/**
 * Returns a scenario in which the price falls below one dollar around session `low`, causing a bid-price deficiency.
 */
const bidPriceDecline =
  (low: number, overrides: Partial<CompanyScenario> = {}) => (random: RandomSource): CompanyScenario => ({
    ...defaults,
    pricePath: [[0, 2.2], [low + random.integer(0, 15), 0.8], [lastSessionNumber, random.between(0.1, 0.4)]],
    volatility: 0.04,
    shares: random.integer(40_000, 90_000),
    turnover: 0.03,
    gaps: [makeGap(random, 140, 0.3, { close: -0.2 }), makeGap(random, 220, -0.25, { high: 0.05, close: -0.1 })],
    raises: [{ session: 141, kind: "direct", dilution: 0.2 }, { session: 200, kind: "note", dilution: 0.08 }],
    deficiencies: [{
      session: 320,
      kind: random.pick(["market_value_listed_securities", "market_value_public_shares"]),
    }],
    ...overrides,
  })

/** A company that changes its symbol three times in two years. */
const frequentRenames = (random: RandomSource): CompanyScenario => ({
  ...serialIssuer(random),
  renames: [120, 260, 430].map((session) => session + random.integer(-10, 10)),
})

/** All scenarios, by name. Each is a function that chooses the random details for one company. */
export const companyScenarios = {
  fullLifecycle,
  serialIssuer,
  pumpAndDump,
  largeCap,
  bidPriceNotice: bidPriceDecline(415),
  bidPriceExtension: bidPriceDecline(290),
  delistingAppeal: bidPriceDecline(50),
  delisted: bidPriceDecline(45, { delisted: 375 }),
  frequentRenames,
  foreignIssuer,
  unpriced,
  /** A company that has no prices and whose exchange is unknown. */
  unlisted: (random: RandomSource): CompanyScenario => ({ ...unpriced(random), exchange: null }),
  /** A company about which no data exists except its name. */
  nameOnly: (random: RandomSource): CompanyScenario => ({ ...unpriced(random), exchange: null, ownershipData: "none" }),
  forwardSplit,
  spac,
  lateFiler,
  pendingSplitVote,
  withdrawnSplit,
}
