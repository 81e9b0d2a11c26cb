/**
 * Reads share counts from a filing's cover page in its XBRL instance. Unlike the SEC's company facts, the instance also
 * contains counts per share class (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { findCik } from "../fetch/EdgarUrls.ts"
import { describeStated } from "./Doubt.ts"
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { chooseMembers, type ChosenMembers } from "./ShareClasses.ts"
import { scanXml, type XmlHandlers, XmlRejected } from "./XmlDocument.ts"

/** The number of shares of a class. If `member` is null, this is the only count and covers the whole company. */
const ClassCount = Schema.Struct({
  /** Qualified name of the XBRL member, such as `us-gaap:CommonClassAMember`. */
  member: Schema.NullOr(Schema.String),
  /** The trading symbol. Null if the instance does not state one for this class. */
  symbol: Schema.NullOr(Schema.String),
  shares: Schema.Finite,
})

/**
 * The share counts of all classes on one date (`YYYY-MM-DD`). If the counts cannot be read, `classes` is empty and
 * `unreadable` contains the reason.
 */
export const CoverCounts = Schema.Struct({
  date: Schema.NullOr(Schema.String),
  classes: Schema.Array(ClassCount),
  /** Counts of securities other than common shares. */
  others: Schema.optionalKey(Schema.Array(ClassCount)),
  unreadable: Schema.optionalKey(Schema.String),
  /** The unreadable counts, formatted by `describeStated`. */
  stated: Schema.optionalKey(Schema.String),
  /** Whether the unreadable counts are for individual share classes or for other subsets of the shares. */
  hasClasses: Schema.optionalKey(Schema.Boolean),
})
export type CoverCounts = typeof CoverCounts.Type

/**
 * Size limits. The largest instances have about 20 million characters. Text longer than `factCharacters` is truncated.
 */
export const instanceLimits = { characters: 50_000_000, facts: 1_000, factCharacters: 1_000 }

const instanceNamespace = "http://www.xbrl.org/2003/instance"

const isDeiNamespace = (uri: string) => uri.startsWith("http://xbrl.sec.gov/dei/")

const countElement = "EntityCommonStockSharesOutstanding"

/** Elements outside contexts that are read. */
const coverElements = new Set([countElement, "Security12bTitle", "TradingSymbol"])

/** Elements inside contexts that are read. */
const contextElements = new Set(["explicitMember", "identifier", "instant", "typedMember"])

/** XBRL axes for share classes in US-GAAP and IFRS, without their prefixes. */
const classAxes = new Set(["StatementClassOfStockAxis", "ClassesOfShareCapitalAxis", "ClassesOfOrdinarySharesAxis"])

/** XBRL axes for other entities, such as subsidiaries that file jointly with their parent. */
const entityAxes = new Set(["LegalEntityAxis", "ConsolidatedEntitiesAxis"])

const getLocalName = (axis: string) => axis.replace(/^.*:/, "")

const isClassAxis = (axis: string) => classAxes.has(getLocalName(axis))

/** An additional axis that a title or symbol may have if a class is listed on several exchanges. */
const exchangeAxis = "dei:EntityListingsExchangeAxis"

interface Context {
  cik: string
  /** Date of the context; empty if the context is a period. */
  instant: string
  /** XBRL members by axis. */
  readonly members: Map<string, string>
}

interface CoverFact {
  readonly name: string
  readonly context: string
  text: string
}

interface CoverFacts {
  readonly contexts: ReadonlyMap<string, Context>
  readonly facts: ReadonlyArray<CoverFact>
}

/** Reads the contexts and the cover page facts without building a tree. Fails with a reason. */
const readCoverFacts = (text: string): Result.Result<CoverFacts, string> => {
  const contexts = new Map<string, Context>()
  const facts: Array<CoverFact> = []
  let context: Context | undefined
  /** The element whose text is being collected, and its depth. */
  let reading: { readonly depth: number; readonly axis: string; readonly name: string; text: string } | undefined
  let fact: CoverFact | undefined

  const finish = ({ axis, name, text }: NonNullable<typeof reading>) => {
    const value = text.trim()
    if (fact !== undefined) fact.text = value
    else if (name === "identifier" && context !== undefined) context.cik = value.padStart(10, "0")
    else if (name === "instant" && context !== undefined) context.instant = value
    else context?.members.set(context.members.has(axis) ? `${axis}, again` : axis, value)
    fact = undefined
    reading = undefined
  }
  const addText = (part: string) => {
    if (reading !== undefined) reading.text = (reading.text + part).slice(0, instanceLimits.factCharacters)
  }
  const onOpen: XmlHandlers["onOpen"] = ({ attributes, local, uri }, depth) => {
    if (depth === 1 && (local !== "xbrl" || uri !== instanceNamespace)) {
      throw new XmlRejected({ message: "is not an XBRL instance" })
    }
    if (reading !== undefined) {
      // An element inside a value makes the value invalid.
      addText("<")
    } else if (depth === 2 && local === "context" && uri === instanceNamespace) {
      const id = attributes["id"]?.value ?? ""
      if (contexts.has(id)) throw new XmlRejected({ message: "has two contexts with the same id" })
      context = { cik: "", instant: "", members: new Map() }
      contexts.set(id, context)
    } else if (context !== undefined && contextElements.has(local)) {
      reading = { depth, axis: attributes["dimension"]?.value ?? "", name: local, text: "" }
    } else if (depth === 2 && coverElements.has(local) && isDeiNamespace(uri)) {
      fact = { name: local, context: attributes["contextRef"]?.value ?? "", text: "" }
      facts.push(fact)
      if (facts.length > instanceLimits.facts) {
        throw new XmlRejected({ message: `has more than ${instanceLimits.facts} facts` })
      }
      reading = { depth, axis: "", name: local, text: "" }
    }
  }
  const onClose = (depth: number) => {
    if (reading?.depth === depth) finish(reading)
    if (depth === 2) context = undefined
  }
  const scanned = scanXml(text, instanceLimits.characters, { onOpen, onClose, onText: addText })
  return Result.map(scanned, () => ({ contexts, facts }))
}

const isCalendarDate = Schema.is(CalendarDate)

/** Parses a whole number of shares. Returns undefined for any other text, such as the empty text of a nil element. */
const parseShares = (text: string) => {
  const shares = /^\d{1,16}(\.0*)?$/.test(text) ? Number(text) : undefined
  return shares !== undefined && shares <= Number.MAX_SAFE_INTEGER ? shares : undefined
}

const isQualifiedName = (text: string) => /^[\w.-]{1,100}:[\w.-]{1,200}$/.test(text)

/** Returns the context's share class member, or null if the context covers all shares. */
const findClass = ({ members }: Context) => Array.from(members).find(([axis]) => isClassAxis(axis))?.[1] ?? null

/**
 * Groups the texts of an element by class member. Skips contexts with other axes, because they describe other entities.
 */
const groupTextsByMember = ({ contexts, facts }: CoverFacts, name: string, cik: string) => {
  const texts = new Map<string, Set<string>>()
  for (const fact of facts) {
    const context = contexts.get(fact.context)
    const member = context === undefined ? null : findClass(context)
    const axes = Array.from(context?.members.keys() ?? []).filter((axis) => axis !== exchangeAxis)
    if (fact.name !== name || context?.cik !== cik || member === null || axes.length !== 1) continue
    texts.set(member, (texts.get(member) ?? new Set()).add(fact.text))
  }
  return texts
}

/**
 * Returns the symbol if there is exactly one, or null otherwise. Filers write `None` or `N/A` for an unlisted class.
 */
const findSymbol = (texts: ReadonlySet<string> = new Set()) => {
  const [symbol, ...others] = Array.from(texts).filter((text) => /^(?!NONE$)[A-Z][A-Z0-9.-]{0,9}$/.test(text))
  return symbol === undefined || others.length > 0 ? null : symbol
}

/** Returns the axes of a context whose count is neither for one class nor for all shares. */
const findUnknownAxes = ({ members }: Context): ReadonlyArray<string> => {
  const axes = Array.from(members.keys())
  return axes.length > 1 || !axes.every(isClassAxis) ? axes : []
}

const isOfOtherEntity = ({ members }: Context) =>
  Array.from(members.keys()).some((axis) => entityAxes.has(getLocalName(axis)))

const describeAxes = (axes: ReadonlyArray<string>) =>
  `is stated by ${axes.map((axis) => axis.replace(/, again$/, "")).join(" and ")}`

const sumShares = (classes: ReadonlyArray<{ readonly shares: number }>) =>
  classes.reduce((sum, { shares }) => sum + shares, 0)

const notTheSum = "is stated with a total that is not the sum of the classes"

/**
 * Keeps only the chosen counts in `classes`. Reports the counts as unreadable if a stated total is not the sum of the
 * classes, or if one of three or more classes is the sum of the others and thus a total with another name.
 */
const separateChosen = (
  { classes, date }: CoverCounts,
  chosen: ChosenMembers,
  refuse: (unreadable: string) => CoverCounts,
): CoverCounts => {
  const select = (members: ReadonlyArray<string>) =>
    classes.filter(({ member }) => member !== null && members.includes(member))
  const [added, totals] = [select(chosen.added), select(chosen.totals)]
  const others = select(chosen.others).filter(({ shares }) => shares > 0)
  if (totals.some(({ shares }) => shares !== sumShares(added))) {
    return refuse(notTheSum)
  }
  const hidden = added.length > 2 && added.find(({ shares }) => shares * 2 === sumShares(added))
  return hidden
    ? refuse(`is stated for ${hidden.member}, which is the sum of the others`)
    : { date, classes: added, ...(others.length > 0 && { others }) }
}

/**
 * Selects the counts for the newest date. Returns null if the cover page has no count for the company. Each class must
 * have exactly one valid count for that date; otherwise, the counts are reported as unreadable.
 */
const selectCounts = (cover: CoverFacts, cik: string): CoverCounts | null => {
  const counts = cover.facts.filter(({ name }) => name === countElement).flatMap(({ context: id, text }) => {
    const context = cover.contexts.get(id)
    return context !== undefined && isOfOtherEntity(context) ? [] : [{
      context,
      member: context === undefined ? null : findClass(context),
      unknownAxes: context === undefined ? [] : findUnknownAxes(context),
      text,
      shares: parseShares(text),
    }]
  })
  if (counts.length === 0) return null
  const last = counts.map(({ context }) => context?.instant ?? "").toSorted().at(-1) ?? ""
  const date = isCalendarDate(last) ? last : null
  const stated = describeStated(counts.map(({ text }) => text))
  const hasClasses = counts.some(({ context }) => context !== undefined && context.members.size > 0)
  const refuse = (unreadable: string): CoverCounts => ({
    date,
    classes: [],
    unreadable,
    stated,
    ...(hasClasses && { hasClasses }),
  })
  if (!counts.every(({ context }) => context?.cik === cik)) return refuse("is beside that of another company")
  if (date === null || !counts.every(({ context }) => isCalendarDate(context?.instant))) {
    return refuse("has no valid date")
  }
  const ofDate = counts.filter(({ context }) => context?.instant === date)
  const isTotal = ({ context }: { readonly context: Context | undefined }) => context?.members.size === 0
  const areTotal = ofDate.some(isTotal)
  const unknownAxes = areTotal ? [] : ofDate.find(({ unknownAxes }) => unknownAxes.length > 0)?.unknownAxes ?? []
  if (unknownAxes.length > 0) return refuse(describeAxes(unknownAxes))
  if (!counts.every(({ member }) => member === null || isQualifiedName(member))) {
    return refuse("is that of a class without a valid name")
  }
  const newest = Map.groupBy(ofDate.filter(({ unknownAxes }) => unknownAxes.length === 0), ({ member }) => member)
  const titles = groupTextsByMember(cover, "Security12bTitle", cik)
  const choose = (named: ReadonlyArray<string>) =>
    chooseMembers(named, (member) => Array.from(titles.get(member) ?? []))
  const listed = Array.from(titles).flatMap(([member, texts]) =>
    Array.from(texts).some((title) => classifySharesByTitle(title) === "common") ? [member] : []
  )
  const symbols = groupTextsByMember(cover, "TradingSymbol", cik)
  const counted = counts.flatMap(({ member, unknownAxes }) => unknownAxes.length > 0 ? [] : [member])
  const readCounts = (members: ReadonlyArray<string | null>) =>
    members.flatMap((member) => {
      const [shares, ...others] = new Set(newest.get(member)?.map(({ shares }) => shares))
      const symbol = member === null ? null : findSymbol(symbols.get(member))
      return shares === undefined || others.length > 0 ? [] : [{ member, symbol, shares }]
    })
  if (areTotal) {
    const classes = readCounts([null])
    if (classes.length !== 1) return refuse("is stated as several numbers")
    const chosen = choose(Array.from(newest.keys()).flatMap((member) => member ?? []))
    const added = typeof chosen === "string" ? [] : readCounts(chosen.added)
    return added.length > 0 && sumShares(added) !== sumShares(classes) ? refuse(notTheSum) : { date, classes }
  }
  const members = Array.from(new Set([...counted, ...listed]))
  const named = members.flatMap((member) => member ?? [])
  const chosen = choose(named)
  if (typeof chosen === "string") return refuse(chosen)
  const needed = [...chosen.added, ...chosen.totals]
  return named.length < members.length || readCounts(needed).length < needed.length
    ? refuse("is not stated once for each class on one date")
    : separateChosen({ date, classes: readCounts(named) }, chosen, refuse)
}

/**
 * Reads the share counts on a filing's cover page from the XBRL instance. Returns null if the cover page has no count.
 * Considers all share classes that have a count for any date, and all listed classes of common shares, but no other
 * securities. Fails if the text is not a valid instance document.
 */
export const decodeCoverCounts = (text: string, url: string): Result.Result<CoverCounts | null, DocumentRejected> =>
  Result.mapBoth(readCoverFacts(text), {
    onSuccess: (cover) => selectCounts(cover, findCik(url) ?? ""),
    onFailure: (reason) => new DocumentRejected({ url, reason }),
  })
