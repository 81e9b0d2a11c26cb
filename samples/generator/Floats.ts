/** How many shares there were and who could trade them, filing by filing. */
import { type Day, sessionOn } from "./Calendar.ts"
import { type Company, renamesOf } from "./Company.ts"
import { quotient } from "./Decimals.ts"
import type { Document } from "./Documents.ts"
import { ipoDay } from "./Filings.ts"
import { sharesOf } from "./Holders.ts"
import type { Prices } from "./Prices.ts"
import type { Dice } from "./Random.ts"

export interface Float {
  readonly document: Document
  readonly reported: Day | null
  /** Numbers of shares; null: the filing does not tell. */
  readonly outstanding: number | null
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly float: number | null
  readonly restricted: number | null
  readonly tradable: number | null
}

/** Filings that tell the number of shares: reports, the prospectus, sales of shares and splits. */
const tells = ({ form, key }: Document) =>
  key.startsWith("periodic") || key === "ipo" || key === "split:effective" ||
  (key.startsWith("raise") && form === "424B5")

/** A report counts the shares some days before it is filed, be it a Sunday; others on their day. */
const reportedOf = (of: Dice, company: Company, { day, key }: Document): Day | null => {
  if (!key.startsWith("periodic")) return day
  if (of.chance(0.04)) return null
  const renamed = renamesOf(company).findLast((rename) => rename.day <= day)?.day ?? 0
  return Math.max(day - of.whole(1, 9), renamed, ipoDay(company) ?? 0)
}

const floatOf = (of: Dice, company: Company, { outstanding: counts }: Prices, document: Document): Float => {
  const reported = reportedOf(of, company, document)
  const outstanding = of.chance(0.02) ? null : counts[sessionOn(reported ?? document.day)] ?? null
  const parts = sharesOf(company)
  const held = (part: number | null) =>
    outstanding === null || part === null ? null : quotient(outstanding * part, 10_000)
  const [insiders, affiliates] = [held(parts.insiders), held(parts.affiliates)]
  const float = outstanding === null || insiders === null || affiliates === null
    ? null
    : outstanding - insiders - affiliates
  const young = ipoDay(company) !== null && document.day < (ipoDay(company) ?? 0) + 180
  const part = company.plot.holders === "institutions" ? 0 : young ? 2500 : of.whole(0, 800)
  const restricted = float === null || of.chance(0.05) ? null : quotient(float * part, 10_000)
  const tradable = float === null || restricted === null ? null : float - restricted
  return { document, reported, outstanding, insiders, affiliates, float, restricted, tradable }
}

/** In the order in which they were filed. */
export const floatsOf = (company: Company, prices: Prices, documents: ReadonlyArray<Document>) => {
  const of = company.dice("floats")
  return documents.filter(tells).map((document) => floatOf(of, company, prices, document))
}

/** The newest by the day it is for, undated ones last, then by the day it was filed. */
export const newestOf = (floats: ReadonlyArray<Float>): Float | undefined =>
  floats.toSorted((one, other) =>
    (other.reported ?? 0) - (one.reported ?? 0) || other.document.day - one.document.day ||
    (other.document.time ?? 0) - (one.document.time ?? 0)
  )[0]

/** What was known on a day. */
export const knownOn = (floats: ReadonlyArray<Float>, day: Day) =>
  floats.findLast(({ document, outstanding }) => document.day <= day && outstanding !== null)
