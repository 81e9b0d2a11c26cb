/**
 * Reads share counts from a filing's cover page in its XBRL instance. Unlike the SEC's company facts, the instance also
 * contains counts per share class (docs/decisions/0103-unknown-values-of-filings.md).
 */
import { Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { findCikInUrl } from "../fetch/EdgarUrls.ts"
import { describeStated } from "./Doubt.ts"
import { classifySharesByTitle } from "./SecurityTitles.ts"
import { chooseMembers } from "./ShareClasses.ts"
import { scanXml, type XmlHandlers, XmlRejected } from "./XmlDocument.ts"

/**
 * The number of shares of one share class. If `member` is null, the cover page has only one count, which covers all
 * shares of the company.
 */
const ClassCount = Schema.Struct({
  /** Qualified name of the XBRL member, such as `us-gaap:CommonClassAMember`. */
  member: Schema.NullOr(Schema.String),
  /** The trading symbol. Null if the instance does not state one for this class. */
  symbol: Schema.NullOr(Schema.String),
  shares: Schema.Finite,
})

/**
 * The share counts of all classes of common shares on one date (`YYYY-MM-DD`). If the counts cannot be read, `classes`
 * is empty and `unreadable` contains the reason as a clause, such as "has no valid date".
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
 * Size limits of an XBRL instance. The largest instances have about 20 million characters. Text longer than
 * `factCharacters` is truncated.
 */
export const xbrlInstanceLimits = { characters: 50_000_000, facts: 1_000, factCharacters: 1_000 }

const instanceNamespace = "http://www.xbrl.org/2003/instance"

const isDeiNamespace = (uri: string) => uri.startsWith("http://xbrl.sec.gov/dei/")

const countElement = "EntityCommonStockSharesOutstanding"

/** Names of the facts that are read. They are direct children of the root element. */
const coverElements = new Set([countElement, "Security12bTitle", "TradingSymbol"])

/**
 * Names of the elements that are read inside a context: the company's CIK, the date, and the members. A member narrows
 * the context down along an axis, for example to one share class.
 */
const contextElements = new Set(["explicitMember", "identifier", "instant", "typedMember"])

/** XBRL axes for share classes in US-GAAP and IFRS, without their prefixes. */
const classAxes = new Set(["StatementClassOfStockAxis", "ClassesOfShareCapitalAxis", "ClassesOfOrdinarySharesAxis"])

/** XBRL axes for entities other than the filer, such as subsidiaries that file jointly with their parent. */
const entityAxes = new Set(["LegalEntityAxis", "ConsolidatedEntitiesAxis"])

const getLocalName = (axis: string) => axis.replace(/^.*:/, "")

const isClassAxis = (axis: string) => classAxes.has(getLocalName(axis))

/**
 * The only axis besides a class axis that the context of a title or symbol may have. Filers add it if a class is listed
 * on several exchanges.
 */
const exchangeAxis = "dei:EntityListingsExchangeAxis"

/** An XBRL context: what a fact with a reference to it is about. */
interface Context {
  cik: string
  /** Date of the context; empty if the context is a period. */
  instant: string
  /** XBRL members by axis. The context of a count for the whole company has none. */
  readonly members: Map<string, string>
}

/** The title, the trading symbol, or the number of shares of a class, as text. */
interface CoverFact {
  readonly name: string
  /** Id of the fact's context. */
  readonly context: string
  text: string
}

interface CoverFacts {
  /** By id. */
  readonly contexts: ReadonlyMap<string, Context>
  readonly facts: ReadonlyArray<CoverFact>
}

/**
 * Reads the contexts and the cover page facts of an XBRL instance. Only these are kept in memory: a tree of the whole
 * document, which can have 50 million characters, is not built. Fails with a reason as a clause.
 *
 * The document has the following form. The handlers for start tags, end tags, and text recognize these elements and
 * their depths:
 *
 *     <xbrl>
 *       <context id="c1"> <identifier/> <instant/> <explicitMember dimension="axis"/> </context>
 *       <dei:TradingSymbol contextRef="c1">ABC</dei:TradingSymbol>
 *     </xbrl>
 */
const readCoverFacts = (text: string): Result.Result<CoverFacts, string> => {
  const contexts = new Map<string, Context>()
  const facts: Array<CoverFact> = []
  /** The context whose start tag has been read, but not its end tag. */
  let context: Context | undefined
  /** The element whose text is being collected, and its depth. `axis` is empty unless it is a member. */
  let reading: { readonly depth: number; readonly axis: string; readonly name: string; text: string } | undefined
  /** The fact whose text is being collected. If undefined, the text belongs to an element of `context`. */
  let fact: CoverFact | undefined

  /** Stores the collected text in the fact or the context. */
  const finish = ({ axis, name, text }: NonNullable<typeof reading>) => {
    const value = text.trim()
    if (fact !== undefined) fact.text = value
    else if (name === "identifier" && context !== undefined) context.cik = value.padStart(10, "0")
    else if (name === "instant" && context !== undefined) context.instant = value
    // A second member on the same axis must not replace the first one, so it gets a different key. The context is then
    // known to have more than one axis, and its count is not used.
    else context?.members.set(context.members.has(axis) ? `${axis}, again` : axis, value)
    fact = undefined
    reading = undefined
  }
  const addText = (part: string) => {
    if (reading !== undefined) reading.text = (reading.text + part).slice(0, xbrlInstanceLimits.factCharacters)
  }
  const onOpen: XmlHandlers["onOpen"] = ({ attributes, local, uri }, depth) => {
    if (depth === 1 && (local !== "xbrl" || uri !== instanceNamespace)) {
      throw new XmlRejected({ message: "is not an XBRL instance" })
    }
    if (reading !== undefined) {
      // A value must not contain elements. The added character makes it invalid for every use.
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
      if (facts.length > xbrlInstanceLimits.facts) {
        throw new XmlRejected({ message: `has more than ${xbrlInstanceLimits.facts} facts` })
      }
      reading = { depth, axis: "", name: local, text: "" }
    }
  }
  const onClose = (depth: number) => {
    if (reading?.depth === depth) finish(reading)
    if (depth === 2) context = undefined
  }
  const scanned = scanXml(text, xbrlInstanceLimits.characters, { onOpen, onClose, onText: addText })
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
 * Returns the texts of the facts with this name by share class member, such as the trading symbols of each class. Skips
 * facts about other companies, facts without a class, and facts with further axes, which restrict them to a part of the
 * class.
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
 * Some write symbols in lowercase.
 */
const findSymbol = (texts: ReadonlySet<string> = new Set()) => {
  const symbols = new Set(Array.from(texts, (text) => text.toUpperCase()))
  const [symbol, ...others] = Array.from(symbols).filter((text) =>
    /^(?!(?:NONE|N\.A\.?)$)[A-Z][A-Z0-9.-]{0,9}$/.test(text)
  )
  return symbol === undefined || others.length > 0 ? null : symbol
}

/**
 * Returns the axes of the context if its count is neither for one class nor for all shares, for example because it is
 * for one class in one country. Returns an empty list otherwise.
 */
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

/** A share count on the cover page. */
interface StatedCount {
  /** Undefined if the instance lacks the context that the fact refers to. */
  readonly context: Context | undefined
  /** The share class; null if the count is for all shares. */
  readonly member: string | null
  /** See `findUnknownAxes`. */
  readonly unknownAxes: ReadonlyArray<string>
  readonly text: string
  /** Undefined if the text is not a whole number. */
  readonly shares: number | undefined
}

/** Returns the share counts on the cover page, except those of subsidiaries and other entities. */
const listStatedCounts = ({ contexts, facts }: CoverFacts): ReadonlyArray<StatedCount> =>
  facts.filter(({ name }) => name === countElement).flatMap(({ context: id, text }) => {
    const context = contexts.get(id)
    return context !== undefined && isOfOtherEntity(context) ? [] : [{
      context,
      member: context === undefined ? null : findClass(context),
      unknownAxes: context === undefined ? [] : findUnknownAxes(context),
      text,
      shares: parseShares(text),
    }]
  })

const isTotal = ({ context }: StatedCount) => context?.members.size === 0

/** The counts for the newest date on a cover page, and what is needed to select among them. */
interface NewestCounts {
  /** The newest date of any count. */
  readonly date: string
  /** The counts for that date. */
  readonly ofDate: ReadonlyArray<StatedCount>
  /** Builds the result for counts that cannot be read. */
  readonly refuse: (unreadable: string) => CoverCounts
}

/**
 * Reads the share classes of a cover page that have a count for the newest date (`ofDate`). A class is identified by
 * its XBRL member, such as `us-gaap:CommonClassAMember`. Returns the members with a count, those with a title for
 * common shares, and two functions: `choose` decides which of some members to add up, and `readCounts` returns their
 * counts.
 */
const makeClassReader = (cover: CoverFacts, cik: string, { ofDate }: NewestCounts) => {
  // A count with an unknown axis is not that of a whole class.
  const countsByMember = Map.groupBy(
    ofDate.filter(({ unknownAxes }) => unknownAxes.length === 0),
    ({ member }) => member,
  )
  const titles = groupTextsByMember(cover, "Security12bTitle", cik)
  const symbols = groupTextsByMember(cover, "TradingSymbol", cik)
  return {
    members: Array.from(countsByMember.keys()),
    /** The members that the cover page lists under a title for common shares; null for a title without a member. */
    withCommonTitle: Array.from(titles).flatMap(([member, texts]) =>
      Array.from(texts).some((title) => classifySharesByTitle(title) === "common") ? [member] : []
    ),
    choose: (members: ReadonlyArray<string>) =>
      chooseMembers(members, (member) => Array.from(titles.get(member) ?? [])),
    /** Returns the counts of the members that have exactly one count. */
    readCounts: (members: ReadonlyArray<string>) =>
      members.flatMap((member) => {
        const [shares, ...others] = new Set(countsByMember.get(member)?.map(({ shares }) => shares))
        return shares === undefined || others.length > 0
          ? []
          : [{ member, symbol: findSymbol(symbols.get(member)), shares }]
      }),
  }
}

/**
 * Returns the counts of the classes of common shares. The classes are those with a count for any date and those that
 * the cover page lists under a title for common shares. Each must have exactly one count for the newest date;
 * otherwise, their sum would be too low. If the cover page also states a total, it must be that sum. If one of three or
 * more classes is the sum of the others, it is a total with another name. With a title of its own, it may also be a
 * class, so the counts cannot be read.
 *
 * @param counts the counts for all dates
 */
const selectClasses = (
  cover: CoverFacts,
  cik: string,
  counts: ReadonlyArray<StatedCount>,
  newest: NewestCounts,
): CoverCounts => {
  const { date, refuse } = newest
  const { choose, readCounts, withCommonTitle } = makeClassReader(cover, cik, newest)
  const withCount = counts.flatMap(({ member, unknownAxes }) => unknownAxes.length > 0 ? [] : [member])
  const members = Array.from(new Set([...withCount, ...withCommonTitle]))
  const named = members.flatMap((member) => member ?? [])
  const chosen = choose(named)
  if (typeof chosen === "string") return refuse(chosen)
  const [added, totals] = [readCounts(chosen.added), readCounts(chosen.totals)]
  const lacksCounts = added.length < chosen.added.length || totals.length < chosen.totals.length
  // If `named` is shorter than `members`, an older count is for all shares. Its relation to the classes is unclear.
  if (named.length < members.length || lacksCounts) return refuse("is not stated once for each class on one date")
  // Filers state 0 for what does not apply.
  if (totals.some(({ shares }) => shares > 0 && shares !== sumShares(added))) return refuse(notTheSum)
  // A member named only `Common Stock`, without a class. It may be another name for one of the classes.
  const plain = added.find(({ member }) => member === chosen.plain)
  const areSecurities = (...members: ReadonlyArray<string>) =>
    members.every((member) => withCommonTitle.includes(member))
  const twin = added.find((other) =>
    plain !== undefined && other !== plain && other.shares === plain.shares && other.shares > 0 &&
    !areSecurities(plain.member, other.member)
  )
  if (twin !== undefined) {
    return refuse(`is the same number for ${chosen.plain} and ${twin.member}, which may be one class`)
  }
  // A total is half of a sum that includes it. With two classes of the same size, each would be half of the sum.
  const hiddenTotal = added.filter(({ shares }) => shares > 0).length > 2
    ? added.find(({ shares }) => shares * 2 === sumShares(added))
    : undefined
  if (hiddenTotal !== undefined && areSecurities(hiddenTotal.member)) {
    return refuse(`is the sum of the other classes for ${hiddenTotal.member}, which may be a class or a total`)
  }
  const others = readCounts(chosen.others).filter(({ shares }) => shares > 0)
  const classes = added.filter((one) => one !== hiddenTotal)
  // If no class has shares, the classes are kept, so that the result states the sum 0 and not that there is no count.
  const withShares = classes.filter(({ shares }) => shares > 0)
  return { date, classes: withShares.length > 0 ? withShares : classes, ...(others.length > 0 && { others }) }
}

/**
 * Returns the number of all shares. A cover page may repeat this number, but must not state two different ones. If it
 * also states the classes, the number must be their sum, and the classes are returned instead, because each has its own
 * price.
 */
const selectTotal = (cover: CoverFacts, cik: string, newest: NewestCounts): CoverCounts => {
  const { date, ofDate, refuse } = newest
  const [shares, ...others] = new Set(ofDate.filter(isTotal).map(({ shares }) => shares))
  if (shares === undefined || others.length > 0) return refuse("is stated as several numbers")
  const { choose, members, readCounts } = makeClassReader(cover, cik, newest)
  const chosen = choose(members.flatMap((member) => member ?? []))
  const stated = readCounts(members.flatMap((member) => member ?? [])).filter((one) => one.shares > 0)
  // If it is unclear which classes to add up, a total that is the number of one of several may be that class alone.
  if (typeof chosen === "string" && stated.length > 1 && stated.some((one) => one.shares === shares)) {
    return refuse(chosen)
  }
  const added = typeof chosen === "string" ? [] : readCounts(chosen.added)
  if (added.length === 0) return { date, classes: [{ member: null, symbol: null, shares }] }
  // Filers state 0 for what does not apply.
  if (shares > 0 && sumShares(added) !== shares) return refuse(notTheSum)
  const ofClasses = ofDate.filter((count) => !isTotal(count))
  return selectClasses(cover, cik, ofClasses, { ...newest, ofDate: ofClasses })
}

/**
 * Selects the counts for the newest date on a cover page. If there is a count of all shares, returns only this one;
 * otherwise, returns one count per class. Returns null if the cover page has no count for the company. If the counts
 * are incomplete, contradictory, or possibly about something else, the result states the reason instead of the counts.
 */
const selectCounts = (cover: CoverFacts, cik: string): CoverCounts | null => {
  const counts = listStatedCounts(cover)
  if (counts.length === 0) return null
  const last = counts.map(({ context }) => context?.instant ?? "").toSorted().at(-1) ?? ""
  const date = isCalendarDate(last) ? last : null
  const hasClasses = counts.some(({ context }) => context !== undefined && context.members.size > 0)
  const refuse = (unreadable: string): CoverCounts => ({
    date,
    classes: [],
    unreadable,
    stated: describeStated(counts.map(({ text }) => text)),
    ...(hasClasses && { hasClasses }),
  })
  if (!counts.every(({ context }) => context?.cik === cik)) return refuse("is beside that of another company")
  if (date === null || !counts.every(({ context }) => isCalendarDate(context?.instant))) {
    return refuse("has no valid date")
  }
  const ofDate = counts.filter(({ context }) => context?.instant === date)
  const hasTotal = ofDate.some(isTotal)
  const withUnknownAxes = hasTotal ? undefined : ofDate.find(({ unknownAxes }) => unknownAxes.length > 0)
  if (withUnknownAxes !== undefined) return refuse(describeAxes(withUnknownAxes.unknownAxes))
  if (!counts.every(({ member }) => member === null || isQualifiedName(member))) {
    return refuse("is that of a class without a valid name")
  }
  const newest: NewestCounts = { date, ofDate, refuse }
  return hasTotal ? selectTotal(cover, cik, newest) : selectClasses(cover, cik, counts, newest)
}

/**
 * Reads the share counts on a filing's cover page from the filing's XBRL instance (see `selectCounts`). Returns null if
 * the cover page has no count. Fails if the text is not a valid instance document.
 */
export const decodeCoverCounts = (text: string, url: string): Result.Result<CoverCounts | null, DocumentRejected> =>
  Result.mapBoth(readCoverFacts(text), {
    onSuccess: (cover) => selectCounts(cover, findCikInUrl(url) ?? ""),
    onFailure: (reason) => new DocumentRejected({ url, reason }),
  })
