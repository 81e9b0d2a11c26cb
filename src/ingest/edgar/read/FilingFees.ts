/**
 * Decodes the fee exhibit of a registration statement (EX-FILING FEES), which states how many securities are registered
 * and for how much. The SEC stores the exhibit's facts next to it as an XBRL instance (taxonomy `ffd`;
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

/** The amounts that a fee exhibit states. */
export interface FilingFees {
  /** Amount in US dollars, with cents. Null if the exhibit does not state the amount of all securities. */
  readonly offeringAmount: string | null
  /** Number of shares. Null if the exhibit does not state it for all securities that are equity. */
  readonly sharesRegistered: string | null
  /** Names of the elements that contain these values. They become part of the source URLs. */
  readonly elements: ReadonlyArray<string>
}

const getAttribute = (element: XmlElement, name: string) => element.attributes[name]?.value ?? ""

const getLocalName = (name: string | null) => name?.replace(/^.*:/, "") ?? ""

/**
 * Returns a key for the line of the offering table that a context refers to. Facts with the same key belong to the same
 * line. Returns null if the context is for the exhibit as a whole, and "" if it belongs to a line of another table.
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

/** A fact in the XBRL instance of a fee exhibit, such as the number of securities on one line of its offering table. */
interface Fact {
  readonly name: string
  readonly element: XmlElement
  /** The key of the line of the offering table that the fact belongs to (`readLineKey`). */
  readonly line: string | null
  /** Unit such as `USD` or `shares`. */
  readonly unit: string
}

const taxonomyPattern = /^http:\/\/xbrl\.sec\.gov\/ffd\/\d{4}/

/**
 * Returns the facts about fees from the XBRL instance of a fee exhibit, each with the line of the offering table that
 * it belongs to, and its unit. A fact refers to both by the id of a `context` and a `unit` element. Fails with a reason
 * if there are no facts about fees, or if one of them has no context.
 */
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

/**
 * Returns the only value of the facts with this name, or null if there is none. A fact may be repeated, but all values
 * must be equal.
 */
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

/** Reads the fee per dollar, in units of 10⁻⁸, such as 0.0001531. */
const readRate = ({ element }: Fact) => readDecimalElement(element)

/**
 * Returns whether one amount is more than twice the other, as if it were in another unit. Zero means that an amount is
 * not stated, for example because fees are deferred.
 */
const contradict = (amount: bigint | null, other: bigint | null) =>
  amount !== null && other !== null && amount > 0n && other > 0n && (amount > 2n * other || other > 2n * amount)

/** Multiplies two numbers in units of 10⁻⁸. */
const multiply = (a: bigint | null, b: bigint | null) => a === null || b === null ? null : a * b / 100_000_000n

/** A line of the offering table: one security with its number and amount. */
interface OfferingLine {
  readonly isEquity: boolean
  /**
   * Whether the title describes shares. False for warrants, and for units, which contain shares listed on other lines.
   */
  readonly hasShares: boolean
  readonly shares: bigint | null
  readonly dollars: bigint | null
  /** The fee per dollar. */
  readonly rate: bigint | null
}

/**
 * Matches the words after a security's name, such as `, par value $0.001, issuable upon exercise of warrants` after
 * `Common Stock`.
 */
const afterNamePattern =
  /[,;(]| (issued|issuable|reserved|underlying|included|offered|to be|that|which|pursuant|under|par value)\b.*/i

/**
 * Reads a line of the offering table from its facts, the XBRL values that the fee exhibit states for the line. Fails
 * with a reason if two of its values contradict each other, for example the amount and the price per share.
 */
const readOfferingLine = (facts: ReadonlyArray<Fact>): Result.Result<OfferingLine, string> =>
  Result.gen(function* () {
    const title = yield* readOnly(facts, "OfferingSctyTitl", readText)
    // The name of the security may be followed by its par value, or by the reason for the registration, which may name
    // other securities. So only the name is classified.
    const kind = classifySharesByTitle(title?.split(afterNamePattern)[0] ?? "")
    const shares = yield* readOnly(facts, "AmtSctiesRegd", readShares)
    const dollars = yield* readOnly(facts, "MaxAggtOfferingPric", readDollars)
    const price = yield* readOnly(facts, "MaxOfferingPricPerScty", readDollars)
    if (contradict(dollars, multiply(shares, price))) {
      return yield* Result.fail("has a line whose amount is not that of its shares")
    }
    const fee = yield* readOnly(facts, "FeeAmt", readDollars)
    const rate = yield* readOnly(facts, "FeeRate", readRate)
    if (contradict(fee, multiply(dollars, rate))) {
      return yield* Result.fail("has a line whose fee is not that of its amount")
    }
    return {
      isEquity: (yield* readOnly(facts, "OfferingSctyTp", readText)) === "Equity",
      hasShares: kind === "common" || kind === "preferred",
      shares,
      dollars,
      rate,
    }
  })

/**
 * Sums the values of all lines. Returns null if there are no lines or if any value is missing or zero, because the sum
 * would then be too small.
 */
const sumLines = (lines: ReadonlyArray<OfferingLine>, getValue: (line: OfferingLine) => bigint | null) => {
  // `||` also drops zeros.
  const values = lines.flatMap((line) => getValue(line) || [])
  return values.length === 0 || values.length < lines.length ? null : values.reduce((sum, value) => sum + value)
}

/**
 * Returns whether two file numbers belong to the same registration. Registrants that share a statement have file
 * numbers such as 333-291338 and 333-291338-01.
 */
const isSameRegistration = (fileNumber: string, stated: string) =>
  stated.split("-").slice(0, 2).join("-") === fileNumber.split("-").slice(0, 2).join("-")

/**
 * Reads the amounts from the root of the XBRL instance: the stated total or, if there is none, the sum over the lines
 * of the offering table. The number of shares is always such a sum, over the lines for equity. Fails with a reason if
 * the exhibit is for another registration or contradicts itself.
 */
const readFees = (root: XmlElement, fileNumber: string): Result.Result<FilingFees, string> =>
  Result.gen(function* () {
    if (root.name !== "xbrl" || root.namespace !== "http://www.xbrl.org/2003/instance") {
      return yield* Result.fail("is not an XBRL instance")
    }
    const facts = yield* readFacts(root)
    const factsOfExhibit = facts.filter(({ line }) => line === null)
    const statedNumber = yield* readOnly(factsOfExhibit, "RegnFileNb", readText)
    if (statedNumber !== null && !isSameRegistration(fileNumber, statedNumber)) {
      return yield* Result.fail("is about another registration")
    }
    const total = yield* readOnly(factsOfExhibit, "TtlOfferingAmt", readDollars)
    const lines = yield* Result.all(
      // Skips null (the exhibit as a whole) and "" (lines of other tables).
      Array.from(Map.groupBy(facts, ({ line }) => line)).flatMap(([line, ofLine]) =>
        line ? [readOfferingLine(ofLine)] : []
      ),
    )
    const sum = sumLines(lines, (line) => line.dollars)
    if (contradict(total, sum)) return yield* Result.fail("has a total that is not the sum of its lines")
    // A total of zero means that the fees are deferred.
    const dollars = total === 0n ? null : total ?? sum
    const fee = yield* readOnly(factsOfExhibit, "TtlFeeAmt", readDollars)
    const [rate = null, ...otherRates] = new Set(lines.map(({ rate }) => rate))
    if (otherRates.length === 0 && contradict(fee, multiply(dollars, rate))) {
      return yield* Result.fail("has a fee that is not that of its total")
    }
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
