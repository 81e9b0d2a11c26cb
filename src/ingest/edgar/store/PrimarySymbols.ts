/**
 * Determines each company's primary symbol, which is the symbol in the company's rows, and moves the rows when it
 * changes (docs/decisions/0126-symbols-of-ingested-rows.md). The rules for moving rows are in `45_symbols.sql`, because
 * database triggers apply them as well.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { todayInChicago } from "../../../contract/rules/Dates.ts"
import { queryCiks } from "./IngestState.ts"
import type { Issuer } from "../read/Issuer.ts"
import {
  groupTickersByIssuer,
  isDerivedSymbol,
  isTickerListChangeProven,
  type ListedTicker,
  resolveContestedSymbols,
} from "../read/TickerList.ts"

/**
 * The symbols of a company's primary security by period, oldest first. `from` or `until` is absent if a period is open
 * at that end.
 */
const SymbolPeriods = Schema.Array(Schema.Struct({
  ticker: Schema.String,
  from: Schema.optionalKey(Schema.String),
  until: Schema.optionalKey(Schema.String),
}))

/** A company as stored in `edgar_companies`. For the meaning of the columns, see `45_symbols.sql`. */
export const CompanySymbols = Schema.Struct({
  cik: Schema.String,
  tickers: Schema.Array(Schema.String),
  primary_ticker: Schema.String,
  former_tickers: Schema.Array(Schema.String),
  listed_on: Schema.String,
  primary_listed_on: Schema.String,
  primary_since: Schema.NullOr(Schema.String),
})
export type CompanySymbols = typeof CompanySymbols.Type

const StoredCompany = Schema.Struct({ ...CompanySymbols.fields, periods: SymbolPeriods })
/** A stored company, including the symbol periods computed by the database. */
export type StoredCompany = typeof StoredCompany.Type

const decodeCompanies = decodeRows(StoredCompany)
const decodePeriods = decodeRows(Schema.Struct({ cik: Schema.String, periods: SymbolPeriods }))
const decodeDays = decodeRows(Schema.Struct({ day: Schema.String }))
const decodeOwners = decodeRows(Schema.Struct({ alias: Schema.String, cik: Schema.String }))
const decodeLocked = decodeRows(Schema.Struct({ cik: Schema.String, is_outdated: Schema.Boolean }))

/**
 * Returns the first symbol that is not derived, as those of preferred shares and units are (`isDerivedSymbol`). This is
 * usually, but not always, the symbol of the common stock (pitfall 5 in `test/ingest/edgar/ticker-list.test.ts`).
 */
const findOrdinarySymbol = (tickers: ReadonlyArray<string>) => tickers.find((ticker) => !isDerivedSymbol(ticker))

/**
 * Returns whether an entry (a company or a symbol) that was last in the ticker list on `lastDay` has been removed
 * permanently. Entries are often missing for a day, so several later copies of the list without the entry are required
 * (`isTickerListChangeProven`). `copyDays` are the days of all stored copies.
 */
const isRemovedFromList = (lastDay: string, copyDays: ReadonlyArray<string>) =>
  isTickerListChangeProven(copyDays.filter((day) => day > lastDay))

/**
 * Maximum number of days between a delisting notice (Form 25) and the company's removal from the ticker list for the
 * notice to explain the removal.
 */
const maxNoticeAge = 30

/**
 * Returns the CIKs of those companies that have a recent Form 25. An exchange or a company files this form to end the
 * listing of a security. The companies are no longer in the ticker list.
 */
const findDelistingNotices = Effect.fnUntraced(function* (companies: ReadonlyArray<StoredCompany>) {
  if (companies.length === 0) return new Set<string>()
  const absent = JSON.stringify(
    companies.map(({ cik, former_tickers, listed_on, periods, primary_ticker }) => ({
      cik,
      listed_on,
      tickers: [primary_ticker, ...former_tickers, ...periods.map(({ ticker }) => ticker)],
    })),
  )
  return yield* queryCiks((sql) =>
    sql`
    select cik from jsonb_to_recordset(${absent}::text::jsonb) as absent (cik text, listed_on date, tickers text[])
    where exists (
      select from news
      where ticker = any (absent.tickers) and filed_at >= absent.listed_on - ${maxNoticeAge}::int
        and form_type in ('25', '25-NSE') and id like absent.cik || '-%'
    )
  `
  )
})

/**
 * Returns the row to store for a company that is in the ticker list of `day`.
 *
 * The primary symbol changes only after it has been missing from the company's symbols in several copies of the list.
 * The new one is the symbol that the confirmed ticker changes lead to (the last of the stored `periods`). If the list
 * does not contain that symbol, it is the company's first symbol that is not derived and that the last copy of an
 * earlier day contains, too. Symbols of warrants, units and preferred shares are derived.
 *
 * `stored` is the company's current row, or undefined if the company is new. The second argument is the company's entry
 * in the list. `copyDays` are the days of the stored copies of the list.
 */
export const updateCompanySymbols = (
  stored: StoredCompany | undefined,
  { cik, ticker, tickers }: Issuer,
  day: string,
  copyDays: ReadonlyArray<string>,
): CompanySymbols => {
  if (stored === undefined) {
    const primary_ticker = findOrdinarySymbol(tickers) ?? ticker
    const days = { listed_on: day, primary_listed_on: day, primary_since: null }
    return { cik, tickers, primary_ticker, former_tickers: [], ...days }
  }
  const { former_tickers, periods, primary_listed_on, primary_since, primary_ticker } = stored
  const company = { cik, tickers, primary_ticker, former_tickers, listed_on: day, primary_listed_on, primary_since }
  if (tickers.includes(primary_ticker)) return { ...company, primary_listed_on: day }
  if (!isRemovedFromList(primary_listed_on, copyDays)) return company
  /** The symbol that the rows carry now. It differs from `primary_ticker` after a confirmed ticker change. */
  const currentSymbol = periods.at(-1)?.ticker ?? primary_ticker
  /** The symbols that the last copy of an earlier day assigned to the company, too. A single copy may be wrong. */
  const lasting = stored.listed_on < day ? tickers.filter((symbol) => stored.tickers.includes(symbol)) : []
  const successor = tickers.includes(currentSymbol) ? currentSymbol : findOrdinarySymbol(lasting)
  // Nothing can replace the primary symbol yet, or only derived symbols are left.
  return successor === undefined ? company : {
    ...company,
    primary_ticker: successor,
    former_tickers: [...former_tickers, successor === currentSymbol ? primary_ticker : currentSymbol],
    primary_listed_on: day,
    primary_since: day,
  }
}

/** Reads the stored companies, by CIK. */
const readStoredCompanies = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const companies = yield* decodeCompanies(sql`
    select cik, tickers, primary_ticker, former_tickers, listed_on::text, primary_listed_on::text, primary_since::text,
      periods
    from edgar_companies
  `)
  return new Map(companies.map((company) => [company.cik, company]))
})

/** Reads the days of the stored copies of the ticker list, oldest first. */
const readCopyDays = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const copies = yield* decodeDays(sql`select day::text from edgar_ticker_lists order by day`)
  return copies.map(({ day }) => day)
})

/**
 * Compares the ticker list from a day with the stored companies, without changing the database. Returns:
 *
 * - `issuers`: the listed companies, in list order, each with the current symbol of its primary security;
 * - `companies`: the same companies by CIK, in the form to be stored;
 * - `owners`: the CIK of the company to which the list gives each symbol;
 * - `stored`: the companies currently stored, by CIK;
 * - `delisted`: the CIKs of stored companies whose securities no longer trade;
 * - `contested`: the symbols that the list assigns to several companies.
 */
export const assignSymbols = Effect.fnUntraced(function* (listRows: ReadonlyArray<ListedTicker>, day: string) {
  const stored = yield* readStoredCompanies
  const copyDays = yield* readCopyDays
  const { contested, rows: list } = resolveContestedSymbols(
    listRows,
    ({ cik, ticker }) => stored.get(cik)?.tickers.includes(ticker) === true,
  )
  const listed = groupTickersByIssuer(list)
  const exchanges = new Map(list.map(({ exchange, ticker }) => [ticker, exchange]))
  const owners = new Map(list.map(({ cik, ticker }) => [ticker, cik]))
  const companies = new Map(
    Array.from(listed, ([cik, issuer]) => [cik, updateCompanySymbols(stored.get(cik), issuer, day, copyDays)]),
  )
  const issuers = Array.from(listed.values(), (issuer): Issuer => {
    const primary = companies.get(issuer.cik)?.primary_ticker ?? issuer.ticker
    const known = stored.get(issuer.cik)
    // The stored periods are based on the stored primary symbol, so they are wrong if the primary symbol has changed.
    const ticker = known?.primary_ticker === primary ? known.periods.at(-1)?.ticker ?? primary : primary
    return { ...issuer, ticker, exchange: exchanges.get(ticker) ?? issuer.exchange }
  })
  /** Stored companies that are not in the list, and whose symbol no other company has. */
  const absent = Array.from(stored.values()).filter(({ cik, periods, primary_ticker }) =>
    // If another company now has the symbol, such as a new holding company, the security still trades.
    !listed.has(cik) && !exchanges.has(periods.at(-1)?.ticker ?? primary_ticker)
  )
  const notices = yield* findDelistingNotices(absent)
  const delisted = absent.filter(({ cik, listed_on }) => notices.has(cik) || isRemovedFromList(listed_on, copyDays))
    .map(({ cik }) => cik)
  return { issuers, companies, owners, stored, delisted, contested }
})

/** The result of comparing the ticker list with the stored companies. */
export type SymbolAssignment = Effect.Success<ReturnType<typeof assignSymbols>>

/** Finds the stored companies that have or had these symbols. Returns pairs of a symbol (`alias`) and a CIK. */
export const readOwnersOfSymbols = Effect.fnUntraced(function* (symbols: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeOwners(sql`
    select alias, cik from company_symbols where alias = any(${symbols}::text[]) order by alias, cik
  `)
})

const isSameText = (left: ReadonlyArray<string>, right: ReadonlyArray<string>) => left.join(",") === right.join(",")

/** Returns whether the new state of a company differs from the stored one in its symbols, not just in its dates. */
const hasChanged = (company: CompanySymbols, stored: StoredCompany | undefined) =>
  stored === undefined || company.primary_ticker !== stored.primary_ticker ||
  !isSameText(company.tickers, stored.tickers)

/**
 * Stores the symbols of the companies that this run reads (`chosen`) and of all listed companies that are already
 * stored. Moves rows to the new symbol if the symbol of their company has changed, and removes the current rows of
 * delisted companies.
 */
const storeSymbols = Effect.fnUntraced(
  function* ({ companies, delisted, stored }: SymbolAssignment, chosen: ReadonlySet<string>) {
    const sql = yield* SqlClient.SqlClient
    const toStore = Array.from(companies.values()).filter(({ cik }) => chosen.has(cik) || stored.has(cik))
    const changed = toStore.filter((company) => hasChanged(company, stored.get(company.cik))).map(({ cik }) => cik)
    const today = yield* todayInChicago
    yield* sql.withTransaction(Effect.gen(function* () {
      // Moving the rows of many companies can take longer than the usual statement timeout.
      yield* sql`set local statement_timeout = 0`
      yield* sql`
        insert into edgar_companies
          (cik, tickers, primary_ticker, former_tickers, listed_on, primary_listed_on, primary_since)
        select cik, tickers, primary_ticker, former_tickers, listed_on, primary_listed_on, primary_since
        from jsonb_populate_recordset(null::edgar_companies, ${JSON.stringify(toStore)}::text::jsonb)
        order by cik
        on conflict (cik) do update set tickers = excluded.tickers, primary_ticker = excluded.primary_ticker,
          former_tickers = excluded.former_tickers, listed_on = excluded.listed_on,
          primary_listed_on = excluded.primary_listed_on, primary_since = excluded.primary_since
      `
      // Even statements that change no rows would change dataset versions and thereby expire cached responses.
      if (changed.length > 0) yield* sql`select edgar_place_companies(${changed}::text[], ${today}::text::date)`
      yield* sql`select edgar_place_due_companies(${today}::text::date)`
      if (delisted.length > 0) yield* sql`select edgar_remove_delisted(${delisted}::text[])`
    }))
  },
)

/**
 * Returns the chosen companies with the periods in which their primary security had each of its symbols. If `isStored`
 * is true, stores the companies first and returns the stored periods. Otherwise, as in a dry run, returns the periods
 * that would result from storing them. A company whose current symbol the list assigns to another company is marked
 * (`isListedForOther`), so that it does not overwrite that company's rows.
 */
export const addSymbolPeriods = Effect.fnUntraced(
  function* (assignment: SymbolAssignment, chosen: ReadonlyArray<Issuer>, isStored: boolean) {
    const sql = yield* SqlClient.SqlClient
    const ciks = chosen.map(({ cik }) => cik)
    if (isStored) yield* storeSymbols(assignment, new Set(ciks))
    const unstored = JSON.stringify(ciks.flatMap((cik) => assignment.companies.get(cik) ?? []))
    const periods = new Map(
      (yield* decodePeriods(
        isStored ? sql`select cik, periods from edgar_companies where cik = any(${ciks}::text[])` : sql`
          select cik, edgar_list_periods(company, ${yield* todayInChicago}::text::date) as periods
          from jsonb_populate_recordset(null::edgar_companies, ${unstored}::text::jsonb) as company
        `,
      )).map((company) => [company.cik, company.periods]),
    )
    return chosen.map((issuer): Issuer => {
      const known = periods.get(issuer.cik) ?? []
      const ticker = known.at(-1)?.ticker ?? issuer.ticker
      const isListedForOther = (assignment.owners.get(ticker) ?? issuer.cik) !== issuer.cik
      return { ...issuer, ticker, periods: known, isListedForOther }
    })
  },
)

/**
 * Runs `load`, which loads rows of these companies, in the caller's transaction. `for share` prevents changes to the
 * companies' symbols until the transaction ends. If an operator has corrected a ticker change since the rows were
 * built, the rows carry outdated symbols. They are then moved to the current symbols after loading.
 */
export const loadWithCurrentSymbols = Effect.fnUntraced(
  function* <A, E, R>(issuers: ReadonlyArray<Issuer>, load: Effect.Effect<A, E, R>) {
    const sql = yield* SqlClient.SqlClient
    // The ticker periods from which the rows' symbols were determined.
    const used = JSON.stringify(issuers.map(({ cik, periods = [] }) => ({ cik, periods })))
    const locked = yield* decodeLocked(sql`
      select company.cik, company.periods <> used.periods as is_outdated from edgar_companies as company
        join jsonb_to_recordset(${used}::text::jsonb) as used (cik text, periods jsonb) on used.cik = company.cik
      order by company.cik for share of company
    `)
    const loaded = yield* load
    const outdated = new Set(locked.flatMap(({ cik, is_outdated }) => is_outdated ? [cik] : []))
    const moved = issuers.filter(({ cik }) => outdated.has(cik))
    if (moved.length > 0) {
      const [ciks, tickers] = [moved.map(({ cik }) => cik), moved.map(({ ticker }) => ticker)]
      yield* sql`select edgar_move_rows(${ciks}::text[], ${tickers}::text[])`
    }
    return loaded
  },
)
