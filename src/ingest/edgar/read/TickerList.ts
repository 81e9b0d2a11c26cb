/**
 * Decodes the SEC's ticker list (`company_tickers_exchange.json`), which assigns ticker symbols to companies. Infers
 * changes of symbols (rows of `ticker_changes`) from copies of the list that were stored on different days.
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

/** A row of the list: a ticker symbol, and the company that has it. */
export interface ListedTicker extends Schema.Schema.Type<typeof ListRow> {}

/** A copy of the list from one day (`YYYY-MM-DD`). */
export interface TickerListCopy {
  readonly day: string
  readonly rows: ReadonlyArray<ListedTicker>
}

const decodeDocument = makeJsonTextDecoder(TickerListDocument)
const decodeRow = makeParsedJsonDecoder(ListRow)

/**
 * Maximum fraction of rows that cannot be decoded. If more rows are unreadable, the SEC has probably changed the
 * format, and the whole list is rejected.
 */
const maxUnreadableShare = 0.01

/**
 * Decodes the text of the list, in which `fields` has the column names and `data` an array of cells for each row.
 * Returns the readable rows and the number of unreadable rows. Omits symbols that do not match `tickerPattern`, because
 * the tables cannot store them. Writes share classes with a hyphen (`BRK-B`). Fails if more than
 * `maxUnreadableShare` of the rows are unreadable.
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

/**
 * Returns the companies in the list by CIK, each with all of its symbols. The name, the exchange, and the main symbol
 * are those of the company's first row.
 */
export const groupTickersByIssuer = (rows: ReadonlyArray<ListedTicker>): ReadonlyMap<string, Issuer> =>
  new Map(
    Array.from(Map.groupBy(rows, ({ cik }) => cik)).flatMap(([cik, ofCompany]) => {
      const [first] = ofCompany
      return first === undefined ? [] : [[cik, { ...first, tickers: ofCompany.map(({ ticker }) => ticker) }] as const]
    }),
  )

/** A symbol that the list assigns to several companies. It is stored only for `owner`. */
export interface ContestedSymbol {
  readonly ticker: string
  readonly owner: ListedTicker
  readonly others: ReadonlyArray<ListedTicker>
}

/**
 * Removes rows so that each symbol belongs to only one company. If the list assigns a symbol to several companies, it
 * stays with the company that already had it according to `hasSymbol`. This happens, for example, while a new holding
 * company takes over the symbol. If none of them had it, the first company in the list gets it. Returns the remaining
 * rows and the contested symbols.
 */
export const resolveContestedSymbols = (
  rows: ReadonlyArray<ListedTicker>,
  hasSymbol: (row: ListedTicker) => boolean,
) => {
  const contested = Array.from(Map.groupBy(rows, ({ ticker }) => ticker)).flatMap(
    ([ticker, claimants]): ReadonlyArray<ContestedSymbol> => {
      const owner = claimants.find(hasSymbol) ?? claimants[0]
      const others = claimants.filter(({ cik }) => cik !== owner?.cik)
      return owner === undefined || others.length === 0 ? [] : [{ ticker, owner, others }]
    },
  )
  const removed = new Set(contested.flatMap(({ others }) => others))
  return { rows: rows.filter((row) => !removed.has(row)), contested }
}

/** Returns whether the new list is more than 1% shorter than the previous one and therefore probably incomplete. */
export const isTickerListShrunk = (previous: { readonly length: number }, next: { readonly length: number }) =>
  next.length < previous.length * 0.99

/**
 * Returns the part of a symbol that identifies the company, without the share class or Nasdaq's fifth letter. For
 * example, the root of `BRK-B` is `BRK`.
 */
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

/**
 * Returns whether the new symbol can be the result of a change of symbol. Symbols of the same company that differ only
 * by a suffix belong to different securities instead, as `ABC` and `ABC-B` do.
 */
const isRename = (oldTicker: string, newTicker: string) =>
  !isDerivedSymbol(oldTicker) && !isDerivedSymbol(newTicker) && getRoot(oldTicker) !== getRoot(newTicker) &&
  !oldTicker.startsWith(newTicker) && !newTicker.startsWith(oldTicker)

/**
 * A symbol counts as added or removed only once it has been present or absent in at least this many copies that span at
 * least this many days, because the SEC's list may alternate between an older and a newer state for days.
 */
const [minDays, minCopies] = [7, 3]

/**
 * Returns whether consecutive copies of the list from these days are sufficient evidence that a symbol has been added
 * or removed. `days` is sorted.
 */
export const isTickerListChangeProven = (days: ReadonlyArray<string>) => {
  const [first, last] = [days[0], days.at(-1)]
  return first !== undefined && last !== undefined && days.length >= minCopies && countDays(first, last) >= minDays
}

/**
 * A company's symbols in each copy of the list, oldest copy first. `tickers` is empty if the company is not in the
 * copy.
 */
type TickerHistory = ReadonlyArray<{ readonly day: string; readonly tickers: ReadonlySet<string> }>

/**
 * Finds the first consecutive copies that contain the symbol and are enough evidence for it
 * (`isTickerListChangeProven`). Returns their first and last day and their number, or undefined if there are not enough
 * yet.
 */
const findLastingRun = (history: TickerHistory, ticker: string) => {
  let days: ReadonlyArray<string> = []
  for (const { day, tickers } of history) {
    days = tickers.has(ticker) ? [...days, day] : []
    const [first] = days
    if (first !== undefined && isTickerListChangeProven(days)) {
      return { first, last: day, count: days.length }
    }
  }
  return undefined
}

/**
 * Returns the pairs of an old and a new symbol of a company: the new one replaced the old one between two consecutive
 * copies of the SEC's ticker list that contain the company. The same pair can occur several times. Symbols of preferred
 * shares, warrants, rights and units are ignored (`isDerivedSymbol`), because they come and go without a rename.
 */
const findReplacements = (history: TickerHistory) => {
  const withCompany = history.filter(({ tickers }) => tickers.size > 0)
  // `index` counts from the second copy, so it is the position of the previous one in `withCompany`.
  return withCompany.slice(1).flatMap(({ tickers }, index) => {
    const before = withCompany[index]?.tickers ?? new Set<string>()
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

/**
 * Returns whether the company had the old symbol before the new one: whether the first copy that contains only one of
 * them contains the old one. If not, the old symbol was an error in a few copies.
 */
const isOlder = (history: TickerHistory, oldTicker: string, newTicker: string) =>
  history.find(({ tickers }) => tickers.has(oldTicker) !== tickers.has(newTicker))?.tickers.has(oldTicker) === true

/**
 * Returns the rows of `ticker_changes` for one company. Each pair of symbols that replaced each other between two
 * copies yields a row, with three exceptions: the symbols belong to different securities, the old symbol was only an
 * error in some copies, or not enough copies since the last one with the old symbol contain the new symbol.
 */
const findChangesOfIssuer = (cik: string, history: TickerHistory, name: string): ReadonlyArray<RowCells> => {
  const pairs = new Map(findReplacements(history).map((pair) => [`${pair.oldTicker} ${pair.newTicker}`, pair]))
  return Array.from(pairs.values()).flatMap(({ newTicker, oldTicker }) => {
    if (!isRename(oldTicker, newTicker) || !isOlder(history, oldTicker, newTicker)) return []
    const lastIndex = history.findLastIndex(({ tickers }) => tickers.has(oldTicker))
    const lastOldDay = history[lastIndex]?.day ?? ""
    const run = findLastingRun(history.slice(lastIndex + 1), newTicker)
    if (run === undefined) return []
    return [{
      old_ticker: oldTicker,
      new_ticker: newTicker,
      effective_date: run.first,
      cik,
      company_name: name,
      status: "estimated",
      source: `SEC ticker list: ${oldTicker} until ${lastOldDay}, ` +
        `${newTicker} in ${run.count} copies from ${run.first} to ${run.last}`,
      source_links: [lastOldDay, run.first].map((day) => `${tickerListUrl}#${day}/${cik}`),
    }]
  })
}

/**
 * Infers changes of symbols from copies of the list, and returns them as rows of `ticker_changes`. A change is inferred
 * only if at least three consecutive copies that span at least a week contain the new symbol, and if the old symbol has
 * not reappeared. The effective date is the day of the first of these copies.
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
