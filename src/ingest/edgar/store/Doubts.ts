/**
 * Doubts about values in the SEC's documents (`edgar_doubts`), and what operators decide about them
 * (`tickerline ingest doubts`).
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { requireDataset, type RowCells } from "../../../contract/Datasets.ts"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { makeBoundsCheck } from "../../load/ColumnBounds.ts"
import { updateMarketCaps } from "../../load/MarketCaps.ts"
import { buildCompanyFactsUrl, findCik } from "../fetch/EdgarUrls.ts"
import { type Decision, type Decisions, type Doubt, formatDoubtKey } from "../read/Doubt.ts"
import { formatPercentageAsFraction } from "../read/XmlValues.ts"
import { datasetsWithCounts, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { requestAgain } from "./IngestWork.ts"

/** The doubt does not exist, or cannot be decided in the way that an operator has asked for. */
export class DoubtNotDecidable extends Data.TaggedError("DoubtNotDecidable")<{ readonly message: string }> {}

const OptionalText = Schema.NullOr(Schema.String)

const decodeDecisions = decodeRows(Schema.Struct({
  dataset: Schema.String,
  url: Schema.String,
  field: Schema.String,
  read: Schema.String,
  decision: Schema.String,
  decided: OptionalText,
}))

/** Reads what operators have decided about values in a company's documents, by the key of the doubt. */
export const readDecisions = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeDecisions(sql`
    select dataset, url, field, read, decision, decided from edgar_doubts where cik = ${cik} and decision is not null
  `)
  return new Map(rows.map(({ dataset, decided, decision, field, read, url }): [string, Decision] => [
    formatDoubtKey({ table: dataset, column: field, url, read }),
    { isConfirmed: decision === "confirmed", value: decided },
  ]))
})

const hasSource = ({ source }: RowCells, url: string) => Array.isArray(source) && source.includes(url)

/** Separates the doubts about which an operator has decided, each with the decision, from those that are open. */
export const splitDecided = (doubts: ReadonlyArray<Doubt>, decisions: Decisions) => {
  const decided = doubts.flatMap((doubt) => {
    const decision = decisions.get(formatDoubtKey(doubt))
    return decision === undefined ? [] : [{ doubt, decision }]
  })
  return { decided, open: doubts.filter((doubt) => !decisions.has(formatDoubtKey(doubt))) }
}

/**
 * Replaces values in new rows of a table by those that operators have decided on. A cell is replaced if its row is made
 * from the element that the doubt is about, and if it has the value that is published because of the doubt.
 */
export const applyDecisions = (
  table: string,
  rows: ReadonlyArray<RowCells>,
  decided: ReturnType<typeof splitDecided>["decided"],
): ReadonlyArray<RowCells> => {
  const ofTable = decided.filter(({ doubt }) => doubt.table === table)
  if (ofTable.length === 0) return rows
  return rows.map((cells) => {
    const values = ofTable.flatMap(({ decision, doubt: { column, published, url } }) =>
      hasSource(cells, url) && (cells[column] ?? null) === published ? [[column, decision.value] as const] : []
    )
    return { ...cells, ...Object.fromEntries(values) }
  })
}

/**
 * Replaces the open doubts about the documents that were read, for the datasets that the run fills. Those that were not
 * found again are deleted. Doubts about which an operator has decided stay as they are.
 */
export const saveDoubts = Effect.fnUntraced(function* (
  { doubts, readUrls }: { readonly doubts: ReadonlyArray<Doubt>; readonly readUrls: ReadonlyArray<string> },
  filled: ReadonlyArray<IngestedDataset>,
) {
  const sql = yield* SqlClient.SqlClient
  // A visit finds the doubts about all share counts, even if the run fills only one of the datasets with counts.
  const hasCounts = datasetsWithCounts.some((name) => filled.includes(name))
  const datasets = hasCounts ? [...filled, ...datasetsWithCounts] : filled
  const given = JSON.stringify(
    Array.from(new Map(doubts.map((doubt) => [formatDoubtKey(doubt), doubt])).values(), (doubt) => ({
      ...doubt,
      cik: findCik(doubt.url),
    })),
  )
  const ciks = Array.from(new Set(readUrls.flatMap((url) => findCik(url) ?? [])))
  yield* sql`
    delete from edgar_doubts as known
    where cik = any(${ciks}::text[]) and decision is null and dataset = any(${datasets}::text[])
      and split_part(url, '#', 1) in (select jsonb_array_elements_text(${JSON.stringify(readUrls)}::text::jsonb))
      and not exists (
        select from jsonb_to_recordset(${given}::text::jsonb)
          as given ("table" text, url text, "column" text, read text)
        where given."table" = known.dataset and given.url = known.url and given."column" = known.field
          and given.read = known.read
      )
  `
  if (doubts.length === 0) return
  yield* sql`
    insert into edgar_doubts as known (cik, dataset, url, field, read, published, reason)
    select cik, "table", url, "column", read, published, reason from jsonb_to_recordset(${given}::text::jsonb)
      as given (cik text, "table" text, url text, "column" text, read text, published text, reason text)
    on conflict (dataset, url, field, read) do update set published = excluded.published, reason = excluded.reason
    where known.decision is null
  `
})

/** A doubt as operators see it. */
const ListedDoubt = Schema.Struct({
  id: Schema.Finite,
  ticker: OptionalText,
  dataset: Schema.String,
  column: Schema.String,
  /** What the document states; empty if its statements contradict each other. */
  read: Schema.String,
  /** What the row has. */
  published: OptionalText,
  reason: Schema.String,
  document: Schema.String,
  decision: OptionalText,
})

/** Which doubts to list. */
export interface DoubtFilter {
  readonly ticker?: string | undefined
  readonly dataset?: string | undefined
  /** Lists what operators have decided instead of what is open. */
  readonly isDecided: boolean
}

/** Lists doubts, ordered by company. */
export const listDoubts = Effect.fnUntraced(function* ({ dataset, isDecided, ticker }: DoubtFilter) {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(ListedDoubt)(sql`
    select doubt_id::float8 as id, company.periods -> -1 ->> 'ticker' as ticker, dataset, field as column, read,
      case when decision is null then published else decided end as published, reason, url as document, decision
    from edgar_doubts left join edgar_companies as company using (cik)
    where (decision is not null) = ${isDecided}::boolean
      and (${dataset ?? null}::text is null or dataset = ${dataset ?? null}::text)
      and (${ticker ?? null}::text is null
        or cik in (select cik from company_symbols where alias = stored_symbol(${ticker ?? null}::text)))
    order by company.periods -> -1 ->> 'ticker', dataset, url, field, doubt_id
  `)
})

/** Counts the doubts about which nobody has decided. */
export const countOpenDoubts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeRows(Schema.Struct({ count: Schema.Finite }))(sql`
    select count(*)::float8 as count from edgar_doubts where decision is null
  `)
  return row?.count ?? 0
})

/** A row of `edgar_doubts`. `published` is the value that rows have without a decision, `decided` with one. */
const StoredDoubt = Schema.Struct({
  cik: Schema.String,
  dataset: Schema.String,
  url: Schema.String,
  field: Schema.String,
  read: Schema.String,
  published: OptionalText,
  decision: OptionalText,
  decided: OptionalText,
})

/** Returns a percentage of a document as the fraction that the column has, or undefined if the text is none. */
const toFraction = (text: string) => {
  const [matched, whole = "", part = ""] = /^(\d{1,3})(?:\.(\d{1,8}))?$/.exec(text) ?? []
  return matched === undefined ? undefined : formatPercentageAsFraction(BigInt(`${whole}${part.padEnd(8, "0")}`))
}

/**
 * Returns the value on which the operator decides: `chosen`, or what the document states if that is undefined. Fails if
 * the column cannot have it.
 */
const checkValue = Effect.fnUntraced(function* (doubt: typeof StoredDoubt.Type, chosen: string | null | undefined) {
  const { field, read } = doubt
  const isPercentage = field === "percent_of_class"
  const value = chosen !== undefined ? chosen : isPercentage ? toFraction(read) ?? read : read
  if (chosen === undefined && read === "") {
    return yield* new DoubtNotDecidable({
      message: "The document contradicts itself, so that nothing can be confirmed. Use `ingest doubts correct`.",
    })
  }
  const dataset = yield* Effect.orDie(requireDataset(doubt.dataset))
  const refuse = (reason: string) => new DoubtNotDecidable({ message: `${doubt.dataset}.${field} ${reason}` })
  // The doubt is about a public float, which has no column, but is in a sentence of `details`.
  if (field === "details") {
    return value === null || /^\d{1,15}$/.test(value) ? value : yield* refuse("has an amount in whole USD")
  }
  const column = Object.entries(dataset.row.fields).find(([name]) => name === field)?.[1]
  if (column === undefined) return yield* refuse("is not a column")
  if (value === null) return Schema.is(column)(null) ? value : yield* refuse("cannot be unknown")
  if (isPercentage && !/^(0(\.\d+)?|1(\.0+)?)$/.test(value)) {
    return yield* refuse("is a fraction from 0 to 1, such as 0.0750 for 7.5 percent. Use `ingest doubts correct`")
  }
  yield* Effect.mapError(Schema.decodeUnknownEffect(column)(value), ({ message }) => refuse(message))
  const [problem] = (yield* makeBoundsCheck(dataset))({ [field]: value })
  return problem === undefined ? value : yield* refuse(problem.reason)
})

/** The columns that repeat the newest `outstanding_shares` of a company, with their tables. */
const currentCounts: ReadonlyArray<readonly [string, string]> = [
  ["float_outstanding", "outstanding"],
  ["screener", "outstanding"],
]

/**
 * Changes a column of the rows that are made from the element of the doubt, if they still have the value from before
 * the decision. Returns the symbols of the changed rows.
 */
const changeRows = Effect.fnUntraced(
  function* (
    table: string,
    column: string,
    { decided, published, url }: typeof StoredDoubt.Type,
    value: string | null,
  ) {
    const sql = yield* SqlClient.SqlClient
    const name = sql(column)
    // Converts a text to the type of the column, which only the table knows: the text becomes a field of a JSON object,
    // and PostgreSQL makes a row of the table from it.
    const makeValue = (text: string | null) =>
      sql`(jsonb_populate_record(null::${sql(table)}, jsonb_build_object(${column}::text, ${text}::text))).${name}`
    const isRow = sql`
      source @> array[${url}::text] and ${name} is distinct from ${makeValue(value)}
        and (${name} is not distinct from ${makeValue(published)} or ${name} is not distinct from ${makeValue(decided)})
    `
    // A statement that changes nothing would also change the version of the dataset.
    const found = yield* sql<{ readonly ticker: string }>`select ticker from ${sql(table)} where ${isRow}`
    if (found.length > 0) yield* sql`update ${sql(table)} set ${name} = ${makeValue(value)} where ${isRow}`
    return found.map(({ ticker }) => ticker)
  },
)

/**
 * Records an operator's decision about a doubt: the value is what the document states or, if `chosen` is given, another
 * one (null: unknown). Changes the rows that are made from the element. If share counts depend on the value, the next
 * run makes those of the company again.
 */
export const decideDoubt = Effect.fnUntraced(function* (id: number, chosen?: string | null) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function* () {
    const [doubt] = yield* decodeRows(StoredDoubt)(sql`
      select cik, dataset, url, field, read, published, decision, decided from edgar_doubts
      where doubt_id = ${id}::bigint for update
    `)
    if (doubt === undefined) {
      return yield* new DoubtNotDecidable({
        message: `There is no doubt ${id}. To list the doubts, run: tickerline ingest doubts`,
      })
    }
    const value = yield* checkValue(doubt, chosen)
    const { dataset, field, read, url } = doubt
    const decision = chosen === undefined ? "confirmed" : "corrected"
    const isCount = datasetsWithCounts.some((name) => name === dataset)
    yield* sql`update edgar_doubts set decision = ${decision}, decided = ${value} where doubt_id = ${id}::bigint`
    yield* sql`
      select record_audit('doubt', ${`${dataset}.${field} of ${url}`}, 'changed',
        ${JSON.stringify({ read, published: doubt.decision === null ? doubt.published : doubt.decided })}::text::jsonb,
        ${JSON.stringify({ decision, value })}::text::jsonb)
    `
    const places = [[dataset, field] as const, ...(field === "outstanding_shares" ? currentCounts : [])]
    const tickers = (yield* Effect.forEach(
      // A public float is in a text, which the next run makes again.
      field === "details" ? [] : places,
      ([table, column]) => changeRows(table, column, doubt, value),
    )).flat()
    if (isCount) {
      yield* updateMarketCaps(tickers)
      yield* requestAgain(buildCompanyFactsUrl(doubt.cik))
    }
    return { ...doubt, value, isCount, rows: tickers.length }
  }))
})
