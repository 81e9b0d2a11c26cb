/**
 * Decodes the SEC's ticker list (`company_tickers_exchange.json`), and infers `ticker_changes` from stored copies of
 * the list.
 */
import { Array as Arr, Result, Schema } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { countDays } from "../../../contract/rules/Dates.ts"
import { tickerPattern } from "../../../contract/rules/Tickers.ts"
import { tickerListUrl } from "../fetch/EdgarUrls.ts"
import type { Issuer } from "./Issuer.ts"
import { Cik, makeJsonTextDecoder, makeParsedJsonDecoder, normalizeCellText } from "./JsonDocument.ts"

const TickerListDocument = Schema.Struct({
  fields: Schema.Array(Schema.String),
  data: Schema.Array(Schema.Array(Schema.Unknown)),
})

const ListRow = Schema.Struct({
  cik: Cik,
  name: Schema.String,
  ticker: Schema.String,
  exchange: Schema.NullOr(Schema.String),
})

/** A ticker symbol of a company. */
export interface ListedTicker extends Schema.Schema.Type<typeof ListRow> {}

/** A copy of the list from one day (`YYYY-MM-DD`). */
export interface TickerListCopy {
  readonly day: string
  readonly rows: ReadonlyArray<ListedTicker>
}

const decodeDocument = makeJsonTextDecoder(TickerListDocument)
const decodeRow = makeParsedJsonDecoder(ListRow)

/** Maximum fraction of unreadable rows. If it is exceeded, the SEC has probably changed the format. */
const maxUnreadableShare = 0.01

/**
 * Returns the readable rows of the list and the number of unreadable rows. Omits symbols that the tables cannot store.
 */
export const decodeTickerList = (text: string, url: string) =>
  decodeDocument(text, url).pipe(
    Result.flatMap(({ data, fields }) => {
      const [rows, [first, ...others]] = Arr.separate(
        data.map((cells) => decodeRow(Object.fromEntries(fields.map((field, index) => [field, cells[index]])), url)),
      )
      return first !== undefined && others.length + 1 > maxUnreadableShare * data.length
        ? Result.fail(first)
        : Result.succeed({ rows, unreadable: data.length - rows.length })
    }),
    Result.map(({ rows, unreadable }) => ({
      unreadable,
      rows: rows.filter(({ ticker }) => tickerPattern.test(ticker)).map(({ cik, exchange, name, ticker }) => ({
        cik,
        name: normalizeCellText(name) ?? cik,
        ticker: ticker.replaceAll(".", "-"),
        exchange: normalizeCellText(exchange ?? ""),
      })),
    })),
  )

/** Groups the list by CIK. The first row of a CIK determines the issuer's ticker. */
export const groupTickersByIssuer = (rows: ReadonlyArray<ListedTicker>): ReadonlyMap<string, Issuer> =>
  new Map(
    Array.from(Map.groupBy(rows, ({ cik }) => cik)).flatMap(([cik, listed]) => {
      const [first] = listed
      return first === undefined ? [] : [[cik, { ...first, tickers: listed.map(({ ticker }) => ticker) }] as const]
    }),
  )

/** A symbol that the list assigns to several companies. */
export interface ContestedSymbol {
  readonly ticker: string
  readonly owner: ListedTicker
  readonly others: ReadonlyArray<ListedTicker>
}

/**
 * Assigns each symbol to only one company, regardless of which companies a run visits. If several companies have a
 * symbol, it stays with the company that already had it according to `hasSymbol`, for example while a holding company
 * takes it over. Otherwise, the first company in the list gets it.
 */
export const resolveContestedSymbols = (
  rows: ReadonlyArray<ListedTicker>,
  hasSymbol: (row: ListedTicker) => boolean,
) => {
  const contested = Array.from(Map.groupBy(rows, ({ ticker }) => ticker)).flatMap(
    ([ticker, listed]): ReadonlyArray<ContestedSymbol> => {
      const owner = listed.find(hasSymbol) ?? listed[0]
      const others = listed.filter(({ cik }) => cik !== owner?.cik)
      return owner === undefined || others.length === 0 ? [] : [{ ticker, owner, others }]
    },
  )
  const without = new Set(contested.flatMap(({ others }) => others))
  return { rows: rows.filter((row) => !without.has(row)), contested }
}

/** Returns whether the new list is more than 1% shorter than the previous one and therefore probably incomplete. */
export const isTickerListShrunk = (previous: { readonly length: number }, next: { readonly length: number }) =>
  next.length < previous.length * 0.99

/** Returns the part of a symbol that identifies the company, without the share class or Nasdaq's fifth letter. */
const getRoot = (ticker: string) => {
  const [base = ""] = ticker.split(/[-.^]/)
  return /^[A-Z]{5}$/.test(base) ? base.slice(0, 4) : base
}

/**
 * Returns whether the symbol denotes preferred shares, rights, units, warrants, or when-issued shares (`-P`, `-R`,
 * `-U`, `-W`; or M to P, R, U, V, or W as the fifth letter), or is a temporary symbol after a reverse split (D as the
 * fifth letter).
 */
export const isDerivedSymbol = (ticker: string) => /[-.^][PRUW]/.test(ticker) || /^[A-Z]{4}[DM-PRU-W]$/.test(ticker)

const isRename = (oldTicker: string, newTicker: string) =>
  !isDerivedSymbol(oldTicker) && !isDerivedSymbol(newTicker) && getRoot(oldTicker) !== getRoot(newTicker) &&
  !oldTicker.startsWith(newTicker) && !newTicker.startsWith(oldTicker)

/**
 * Minimum number of days, and of copies, that a symbol must be present or absent. The SEC's list may alternate between
 * an older and a newer state for days.
 */
const [minDays, minCopies] = [7, 3]

/** Returns whether consecutive copies from these days are sufficient evidence. `days` is sorted. */
export const areEnoughCopyDays = (days: ReadonlyArray<string>) => {
  const [first, last] = [days[0], days.at(-1)]
  return first !== undefined && last !== undefined && days.length >= minCopies && countDays(first, last) >= minDays
}

/** The symbols of a CIK in each copy, oldest first. `tickers` is empty if the CIK is not in the copy. */
type TickerHistory = ReadonlyArray<{ readonly day: string; readonly tickers: ReadonlySet<string> }>

/**
 * Finds the first run of at least `minCopies` consecutive copies that contain the symbol and span at least `minDays`.
 * The run ends as soon as it is long enough.
 */
const findLastingRun = (history: TickerHistory, ticker: string) => {
  let days: ReadonlyArray<string> = []
  for (const { day, tickers } of history) {
    days = tickers.has(ticker) ? [...days, day] : []
    const [first] = days
    if (first !== undefined && areEnoughCopyDays(days)) {
      return { first, last: day, count: days.length }
    }
  }
  return undefined
}

/**
 * Compares consecutive copies that list the company. If one symbol disappeared and one appeared, returns them as a
 * pair.
 */
const findReplacements = (history: TickerHistory) => {
  const listed = history.filter(({ tickers }) => tickers.size > 0)
  return listed.slice(1).flatMap(({ tickers }, index) => {
    const before = listed[index]?.tickers ?? new Set<string>()
    const lost = Array.from(before.difference(tickers)).filter((ticker) => !isDerivedSymbol(ticker))
    const gained = Array.from(tickers.difference(before)).filter((ticker) => !isDerivedSymbol(ticker))
    const [oldTicker] = lost
    const [newTicker] = gained
    // If several symbols disappeared or appeared, it is unclear which one replaced which.
    return lost.length === 1 && gained.length === 1 && oldTicker !== undefined && newTicker !== undefined
      ? [{ oldTicker, newTicker }]
      : []
  })
}

/** Returns whether the company had the old symbol first. If it did not, the old symbol was an error in a few copies. */
const isOlder = (history: TickerHistory, oldTicker: string, newTicker: string) =>
  history.find(({ tickers }) => tickers.has(oldTicker) !== tickers.has(newTicker))?.tickers.has(oldTicker) === true

const findChangesOfIssuer = (cik: string, history: TickerHistory, name: string): ReadonlyArray<RowCells> => {
  const pairs = new Map(findReplacements(history).map((pair) => [`${pair.oldTicker} ${pair.newTicker}`, pair]))
  return Array.from(pairs.values()).flatMap(({ newTicker, oldTicker }) => {
    if (!isRename(oldTicker, newTicker) || !isOlder(history, oldTicker, newTicker)) return []
    const end = history.findLastIndex(({ tickers }) => tickers.has(oldTicker))
    const lastOld = history[end]?.day ?? ""
    const run = findLastingRun(history.slice(end + 1), newTicker)
    if (run === undefined) return []
    return [{
      old_ticker: oldTicker,
      new_ticker: newTicker,
      effective_date: run.first,
      cik,
      company_name: name,
      status: "estimated",
      source: `SEC ticker list: ${oldTicker} until ${lastOld}, ` +
        `${newTicker} in ${run.count} copies from ${run.first} to ${run.last}`,
      source_links: [lastOld, run.first].map((day) => `${tickerListUrl}#${day}/${cik}`),
    }]
  })
}

/**
 * Infers symbol changes from copies of the list. The new symbol must be present in at least three consecutive copies
 * that span at least a week, and the old symbol must not reappear. The effective date is the day of the first such
 * copy.
 */
export const inferTickerChanges = (copies: ReadonlyArray<TickerListCopy>): ReadonlyArray<RowCells> => {
  const sorted = copies.toSorted((a, b) => a.day.localeCompare(b.day))
  const groups = sorted.map(({ day, rows }) => ({ day, issuers: groupTickersByIssuer(rows) }))
  const ciks = Array.from(new Set(groups.flatMap(({ issuers }) => Array.from(issuers.keys())))).toSorted()
  return ciks.flatMap((cik) => {
    const history = groups.map(({ day, issuers }) => ({ day, tickers: new Set(issuers.get(cik)?.tickers) }))
    const name = groups.findLast(({ issuers }) => issuers.has(cik))?.issuers.get(cik)?.name ?? cik
    return findChangesOfIssuer(cik, history, name)
  })
}
