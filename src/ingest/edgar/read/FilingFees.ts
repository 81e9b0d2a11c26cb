/**
 * Decodes the fee exhibit of a registration statement (EX-FILING FEES), which states how much is registered. The SEC
 * stores the exhibit's facts next to it as an XBRL instance (taxonomy `ffd`;
 * docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Result, Schema } from "effect"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { makeJsonTextDecoder } from "./JsonDocument.ts"
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { findChildElements, findOnlyChildElement, parseXml, readElementText, type XmlElement } from "./XmlDocument.ts"
import { formatDollars, formatWholeShares, readDecimalElement } from "./XmlValues.ts"

const decodeFolder = makeJsonTextDecoder(
  Schema.Struct({ directory: Schema.Struct({ item: Schema.Array(Schema.Struct({ name: Schema.String })) }) }),
)

/**
 * Returns whether the file name is that of a fee instance. Filing agents use different names:
 * `d98304dexfilingfees_htm.xml`, `ex107_htm.xml`, `ea0288ex-fee_acme_htm.xml`.
 */
export const isFeeInstance = (name: string) =>
  /^[\w.-]+_htm\.xml$/i.test(name) &&
  /fil(e|ing)?[-_]?fee|ex[-_]?fee|fees?[-_]?(table|exhibit)|ex(hibit)?[-_.]?107/i.test(name)

/**
 * Returns the name of the fee instance in a filing folder's listing (`index.json`), or null if there is none. Fails if
 * there are several.
 */
export const findFeeInstance = (text: string, url: string): Result.Result<string | null, DocumentRejected> =>
  Result.flatMap(decodeFolder(text, url), ({ directory }) => {
    const [name = null, ...others] = directory.item.flatMap(({ name }) => isFeeInstance(name) ? [name] : [])
    return others.length === 0
      ? Result.succeed(name)
      : Result.fail(new DocumentRejected({ url, reason: "has more than one fee exhibit" }))
  })

export interface FilingFees {
  /** Amount in US dollars, with cents. Null if the exhibit does not state the full amount. */
  readonly offeringAmount: string | null
  readonly sharesRegistered: string | null
  /** Names of the elements that contain these values. */
  readonly elements: ReadonlyArray<string>
}

const getAttribute = (element: XmlElement, name: string) => element.attributes[name]?.value ?? ""

const getLocalName = (name: string | null) => name?.replace(/^.*:/, "") ?? ""

/**
 * Returns a key for a line of the offering table, null if the context has no dimension, or "" if it belongs to another
 * table.
 */
const readLineKey = (context: XmlElement) => {
  const members = [
    ...findChildElements(context, "scenario"),
    ...findChildElements(context, "entity").flatMap((entity) => findChildElements(entity, "segment")),
  ].flatMap(({ children }) => children)
  if (members.length === 0) return null
  const isLine = members.some((member) => getLocalName(getAttribute(member, "dimension")) === "OfferingAxis")
  return isLine
    ? JSON.stringify(members.map(({ children, text }) => [text, ...children.map(({ text }) => text.trim())]))
    : ""
}

interface Fact {
  readonly name: string
  readonly element: XmlElement
  readonly line: string | null
  /** Unit such as `USD` or `shares`. */
  readonly unit: string
}

const taxonomyPattern = /^http:\/\/xbrl\.sec\.gov\/ffd\/\d{4}/

const readFacts = (root: XmlElement): Result.Result<ReadonlyArray<Fact>, string> => {
  const lines = new Map(
    findChildElements(root, "context").map((context) => [getAttribute(context, "id"), readLineKey(context)]),
  )
  const units = new Map(
    findChildElements(root, "unit").map((unit) => [
      getAttribute(unit, "id"),
      getLocalName(readElementText(findOnlyChildElement(unit, "measure"))),
    ]),
  )
  const facts = root.children.filter(({ namespace }) => taxonomyPattern.test(namespace))
  if (facts.length === 0) return Result.fail("has no facts about fees")
  return Result.all(facts.map((element) => {
    const line = lines.get(getAttribute(element, "contextRef"))
    if (line === undefined) return Result.fail("has a fact without a context")
    return Result.succeed({
      name: element.name,
      element,
      line,
      unit: units.get(getAttribute(element, "unitRef")) ?? "",
    })
  }))
}

/** Returns the only value of an element, or null if there is none. If a fact is repeated, all values must be equal. */
const readOnly = <A>(
  facts: ReadonlyArray<Fact>,
  name: string,
  read: (fact: Fact) => Result.Result<A | null, string>,
): Result.Result<A | null, string> =>
  Result.flatMap(Result.all(facts.filter((fact) => fact.name === name).map(read)), (values) => {
    const [value = null, ...others] = new Set(values.filter((value) => value !== null))
    return others.length === 0 ? Result.succeed(value) : Result.fail(`has contradictory values of ${name}`)
  })

/** 100 trillion dollars, in units of 10⁻⁸ dollars. No offering is that large. */
const maxDollars = 10n ** 22n

/** Reads a dollar amount, in units of 10⁻⁸ dollars. */
const readDollars = ({ element, name, unit }: Fact): Result.Result<bigint | null, string> =>
  Result.flatMap(
    readDecimalElement(element),
    (amount) =>
      amount === null || unit === "USD" ? Result.succeed(amount) : Result.fail(`has a unit other than USD in ${name}`),
  )

const readText = ({ element }: Fact) => Result.succeed(readElementText(element))

/**
 * Reads a number of shares, in units of 10⁻⁸ shares. Returns null for any other unit, such as the dollar amount of
 * debt.
 */
const readShares = ({ element, unit }: Fact) =>
  Result.map(readDecimalElement(element), (shares) => unit === "shares" ? shares : null)

interface OfferingLine {
  readonly isEquity: boolean
  /**
   * Whether the title describes shares. False for warrants, and for units, which contain shares listed on other lines.
   */
  readonly hasShares: boolean
  readonly shares: bigint | null
  readonly dollars: bigint | null
}

/**
 * Matches the words after a security's name, such as `, par value $0.001, issuable upon exercise of warrants` after
 * `Common Stock`.
 */
const afterNamePattern =
  /[,;(]| (issued|issuable|reserved|underlying|included|offered|to be|that|which|pursuant|under|par value)\b.*/i

const readLine = (facts: ReadonlyArray<Fact>): Result.Result<OfferingLine, string> =>
  Result.gen(function* () {
    const title = yield* readOnly(facts, "OfferingSctyTitl", readText)
    const kind = classifySharesByTitle(title?.split(afterNamePattern)[0] ?? "")
    return {
      isEquity: (yield* readOnly(facts, "OfferingSctyTp", readText)) === "Equity",
      hasShares: kind === "common" || kind === "preferred",
      shares: yield* readOnly(facts, "AmtSctiesRegd", readShares),
      dollars: yield* readOnly(facts, "MaxAggtOfferingPric", readDollars),
    }
  })

/**
 * Sums the values of all lines. Returns null if there are no lines or if any value is missing or zero, so the result is
 * never a partial sum.
 */
const sumLines = (lines: ReadonlyArray<OfferingLine>, getValue: (line: OfferingLine) => bigint | null) => {
  const values = lines.flatMap((line) => getValue(line) || [])
  return values.length === 0 || values.length < lines.length ? null : values.reduce((sum, value) => sum + value)
}

const isSameRegistration = (fileNumber: string, stated: string) =>
  // Registrants that share a statement have file numbers such as 333-291338 and 333-291338-01.
  stated.split("-").slice(0, 2).join("-") === fileNumber.split("-").slice(0, 2).join("-")

const readFees = (root: XmlElement, fileNumber: string): Result.Result<FilingFees, string> =>
  Result.gen(function* () {
    if (root.name !== "xbrl" || root.namespace !== "http://www.xbrl.org/2003/instance") {
      return yield* Result.fail("is not an XBRL instance")
    }
    const facts = yield* readFacts(root)
    const whole = facts.filter(({ line }) => line === null)
    const stated = yield* readOnly(whole, "RegnFileNb", readText)
    if (stated !== null && !isSameRegistration(fileNumber, stated)) {
      return yield* Result.fail("is about another registration")
    }
    const total = yield* readOnly(whole, "TtlOfferingAmt", readDollars)
    const lines = yield* Result.all(
      Array.from(Map.groupBy(facts, ({ line }) => line)).flatMap(([line, facts]) => line ? [readLine(facts)] : []),
    )
    // A total of zero means that the fees are deferred.
    const dollars = total === 0n ? null : total ?? sumLines(lines, (line) => line.dollars)
    if (dollars !== null && dollars > maxDollars) return yield* Result.fail("has an impossible amount of dollars")
    const shares = sumLines(lines.filter(({ isEquity }) => isEquity), (line) => line.hasShares ? line.shares : null)
    return {
      offeringAmount: formatDollars(dollars),
      sharesRegistered: yield* formatWholeShares(shares),
      elements: [
        ...(dollars === null ? [] : [total === null ? "MaxAggtOfferingPric" : "TtlOfferingAmt"]),
        ...(shares === null ? [] : ["AmtSctiesRegd"]),
      ],
    }
  })

/** Decodes the fee instance of the registration statement with this file number. */
export const decodeFilingFees = (text: string, url: string, fileNumber: string) =>
  Result.mapError(
    Result.flatMap(parseXml(text), (root) => readFees(root, fileNumber)),
    (reason) => new DocumentRejected({ url, reason }),
  )
