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
import { findOwnerType } from "../read/Schedule13.ts"
import { readFraction } from "../read/XmlValues.ts"
import { datasetsWithCounts, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { requestAgain } from "./IngestWork.ts"

/** The doubt does not exist, or cannot be decided in the way that an operator has asked for. */
export class DoubtNotDecidable extends Data.TaggedError("DoubtNotDecidable")<{ readonly message: string }> {}

const OptionalText = Schema.NullOr(Schema.String)

const isTableWithCounts = (table: string) => datasetsWithCounts.some((name) => name === table)

/** A decision, with the doubt that it is about. */
export interface StoredDecision extends Decision, Pick<Doubt, "column" | "published" | "table" | "url"> {
  readonly cik: string
}

const decodeDecisions = decodeRows(Schema.Struct({
  cik: Schema.String,
  dataset: Schema.String,
  url: Schema.String,
  field: Schema.String,
  read: Schema.String,
  published: OptionalText,
  decision: Schema.String,
  decided: OptionalText,
}))

/** Reads what operators have decided about values in the documents of companies, by the key of the doubt. */
export const readDecisions = Effect.fnUntraced(function* (ciks: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeDecisions(sql`
    select cik, dataset, url, field, read, published, decision, decided from edgar_doubts
    where cik = any(${ciks}::text[]) and decision is not null
  `)
  return new Map(
    rows.map(({ cik, dataset: table, decided, decision, field: column, published, read, url }): [
      string,
      StoredDecision,
    ] => [
      formatDoubtKey({ table, column, url, read }),
      { cik, table, column, url, published, isConfirmed: decision === "confirmed", value: decided },
    ]),
  )
})

/** Separates the doubts that an operator has decided, each with the decision, from the open doubts. */
export const splitDecided = (doubts: ReadonlyArray<Doubt>, decisions: Decisions) => {
  const decided = doubts.flatMap((doubt) => {
    const decision = decisions.get(formatDoubtKey(doubt))
    return decision === undefined ? [] : [{ doubt, decision }]
  })
  return { decided, open: doubts.filter((doubt) => !decisions.has(formatDoubtKey(doubt))) }
}

/** A new value for a column of the rows that are made from an element, if they have one of the values in `from`. */
interface CellChange {
  readonly table: string
  readonly column: string
  readonly url: string
  readonly from: ReadonlyArray<string | null>
  readonly to: string | null
}

/** A column whose value is derived from the doubtful column. */
interface DependentColumn {
  readonly table: string
  readonly column: string
  /** Returns its value. Absent if the two have the same. */
  readonly derive?: (value: string | null) => string | null
}

/** The columns that follow from others. The current count of a company repeats one of `historical_float_pro`. */
const dependentColumns: { readonly [column: string]: ReadonlyArray<DependentColumn> } = {
  "historical_float_pro.outstanding_shares": [
    { table: "float_outstanding", column: "outstanding" },
    { table: "screener", column: "outstanding" },
  ],
  "historical_float_pro.reported_date": [{ table: "float_outstanding", column: "reported_date" }],
  "ownership.percent_of_class": [{
    table: "ownership",
    column: "owner_type",
    derive: (fraction) => findOwnerType(readFraction(fraction)),
  }],
}

/** Returns the changes of cells that a decision makes. A public float is in a text, which the next run makes again. */
const listChanges = (
  { column, table, url }: Pick<Doubt, "column" | "table" | "url">,
  from: ReadonlyArray<string | null>,
  to: string | null,
): ReadonlyArray<CellChange> => {
  const places: ReadonlyArray<DependentColumn> = [{ table, column }, ...dependentColumns[`${table}.${column}`] ?? []]
  return column === "details" ? [] : places.map(({ column, derive = (value) => value, table }) => ({
    table,
    column,
    url,
    from: from.map(derive),
    to: derive(to),
  }))
}

/** Changes cells in new rows of a table. */
export const changeCells = (
  table: string,
  rows: ReadonlyArray<RowCells>,
  changes: ReadonlyArray<CellChange>,
): ReadonlyArray<RowCells> => {
  const ofTable = changes.filter((change) => change.table === table)
  if (ofTable.length === 0) return rows
  return rows.map((cells) => {
    const { source } = cells
    const values = ofTable.flatMap(({ column, from, to, url }) => {
      const cell = cells[column]
      const isRow = Array.isArray(source) && source.includes(url)
      return isRow && from.includes(typeof cell === "string" ? cell : null) ? [[column, to] as const] : []
    })
    return { ...cells, ...Object.fromEntries(values) }
  })
}

/** Returns the changes that the decisions make in rows with the values that are published because of the doubts. */
export const listDecidedChanges = (decided: ReturnType<typeof splitDecided>["decided"]) =>
  decided.flatMap(({ decision, doubt }) => listChanges(doubt, [doubt.published], decision.value))

/** The decisions that were known when rows of a company were made. */
export interface UsedDecisions {
  readonly cik: string
  readonly decisions: Decisions
}

/**
 * Finds the decisions that were made or replaced after rows had been made, and the changes that they make in these
 * rows. The caller has locked the companies, so no decision about them can follow before its transaction ends.
 */
export const findLaterDecisions = Effect.fnUntraced(function* (used: ReadonlyArray<UsedDecisions>) {
  const ciks = Array.from(new Set(used.map(({ cik }) => cik)))
  const later = Array.from(yield* readDecisions(ciks)).flatMap(([key, stored]) => {
    const replaced = used.filter(({ cik }) => cik === stored.cik).flatMap(({ decisions }) => {
      const known = decisions.get(key)
      if (known === undefined) return [stored.published]
      return known.value === stored.value && known.isConfirmed === stored.isConfirmed ? [] : [known.value]
    })
    return replaced.length === 0 ? [] : [{ stored, replaced }]
  })
  return {
    changes: later.flatMap(({ replaced, stored }) => listChanges(stored, replaced, stored.value)),
    decisions: later.map(({ stored }) => stored),
  }
})

/** Queues the facts of the companies whose share counts depend on the decisions. */
export const requestCountsAgain = (decisions: ReadonlyArray<Pick<StoredDecision, "cik" | "table">>) =>
  Effect.forEach(
    new Set(decisions.flatMap(({ cik, table }) => isTableWithCounts(table) ? [cik] : [])),
    (cik) => requestAgain(buildCompanyFactsUrl(cik)),
    { discard: true },
  )

/**
 * Replaces the open doubts about the documents that were read, for the datasets that the run fills. Open doubts
 * that were not found again are deleted. Doubts that an operator has decided do not change.
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
    insert into edgar_doubts as known (cik, dataset, url, field, read, confirmable, is_joint, published, reason)
    select cik, "table", url, "column", read, confirmable, coalesce("isJoint", false), published, reason
    from jsonb_to_recordset(${given}::text::jsonb) as given (
      cik text, "table" text, url text, "column" text, read text, confirmable text, "isJoint" boolean, published text,
      reason text
    )
    on conflict (dataset, url, field, read) do update set confirmable = excluded.confirmable,
      is_joint = excluded.is_joint, published = excluded.published, reason = excluded.reason
    where known.decision is null
  `
})

/** A doubt as operators see it. */
const ListedDoubt = Schema.Struct({
  id: Schema.Finite,
  ticker: OptionalText,
  dataset: Schema.String,
  column: Schema.String,
  /** What the document states; empty if it states nothing. */
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
  id: Schema.Finite,
  cik: Schema.String,
  dataset: Schema.String,
  url: Schema.String,
  field: Schema.String,
  read: Schema.String,
  confirmable: OptionalText,
  is_joint: Schema.Boolean,
  published: OptionalText,
  decision: OptionalText,
  decided: OptionalText,
})

/**
 * Returns the value on which the operator decides: `chosen`, or what the document states if that is undefined. Fails if
 * the column cannot have it.
 */
const checkValue = Effect.fnUntraced(function* (doubt: typeof StoredDoubt.Type, chosen: string | null | undefined) {
  const { confirmable, field, read } = doubt
  if (chosen === undefined && confirmable === null) {
    return yield* new DoubtNotDecidable({
      message: `The document states ${read === "" ? "nothing" : read}, which cannot be confirmed, because it is no ` +
        `value of ${doubt.dataset}.${field}. Use \`ingest doubts correct\`, with the value that is right.`,
    })
  }
  const value = chosen === undefined ? confirmable : chosen
  const dataset = yield* Effect.orDie(requireDataset(doubt.dataset))
  const refuse = (reason: string) => new DoubtNotDecidable({ message: `${doubt.dataset}.${field} ${reason}` })
  // Doubts about `details` concern the public float, which has no column of its own but is part of a sentence there.
  if (field === "details") {
    return value === null || /^\d{1,15}$/.test(value) ? value : yield* refuse("has an amount in whole USD")
  }
  const column = Object.entries(dataset.row.fields).find(([name]) => name === field)?.[1]
  if (column === undefined) return yield* refuse("is not a column")
  if (value === null) return Schema.is(column)(null) ? value : yield* refuse("cannot be unknown")
  if (field === "percent_of_class" && !/^(0(\.\d+)?|1(\.0+)?)$/.test(value)) {
    return yield* refuse("is a fraction from 0 to 1, such as 0.0750 for 7.5 percent. Use `ingest doubts correct`")
  }
  yield* Effect.mapError(Schema.decodeUnknownEffect(column)(value), ({ message }) => refuse(message))
  const [problem] = (yield* makeBoundsCheck(dataset))({ [field]: value })
  return problem === undefined ? value : yield* refuse(problem.reason)
})

/** Changes the cells in stored rows. Returns the symbols of the changed rows. */
const changeRows = Effect.fnUntraced(function* ({ column, from, table, to, url }: CellChange) {
  const sql = yield* SqlClient.SqlClient
  const name = sql(column)
  // Converts a text to the type of the column, which only the table knows: the text becomes a field of a JSON object,
  // and PostgreSQL makes a row of the table from it.
  const makeValue = (text: string | null) =>
    sql`(jsonb_populate_record(null::${sql(table)}, jsonb_build_object(${column}::text, ${text}::text))).${name}`
  const isRow = sql`
    source @> array[${url}::text] and ${name} is distinct from ${makeValue(to)}
      and ${sql.or(from.map((value) => sql`${name} is not distinct from ${makeValue(value)}`))}
  `
  // A statement that changes nothing would also change the version of the dataset.
  const found = yield* sql<{ readonly ticker: string }>`select ticker from ${sql(table)} where ${isRow}`
  if (found.length > 0) yield* sql`update ${sql(table)} set ${name} = ${makeValue(to)} where ${isRow}`
  return found.map(({ ticker }) => ticker)
})

/** Stores a decision about one doubt, and changes the rows. Returns the symbols of the changed rows. */
const storeDecision = Effect.fnUntraced(
  function* (doubt: typeof StoredDoubt.Type, decision: "confirmed" | "corrected", value: string | null) {
    const sql = yield* SqlClient.SqlClient
    const { dataset, decided, field, id, published, read, url } = doubt
    yield* sql`update edgar_doubts set decision = ${decision}, decided = ${value} where doubt_id = ${id}::bigint`
    yield* sql`
      select record_audit('doubt', ${`${dataset}.${field} of ${url}`}, 'changed',
        ${JSON.stringify({ read, published: doubt.decision === null ? published : decided })}::text::jsonb,
        ${JSON.stringify({ decision, value })}::text::jsonb)
    `
    const changes = listChanges({ table: dataset, column: field, url }, [published, decided], value)
    return (yield* Effect.forEach(changes, changeRows)).flat()
  },
)

/**
 * If a document states only a part of what a holder owns, the holder is not shown, and the doubts about its values are
 * decided together. Returns the other doubts of the same holder. If an operator gives one value, the others are
 * confirmed, so that the whole holder is shown; if one value is unknown, all are. Fails if the holder would have no
 * name.
 */
const findJointDoubts = Effect.fnUntraced(function* (doubt: typeof StoredDoubt.Type, value: string | null) {
  const sql = yield* SqlClient.SqlClient
  const others = yield* decodeRows(StoredDoubt)(sql`
    select doubt_id::float8 as id, cik, dataset, url, field, read, confirmable, is_joint, published, decision, decided
    from edgar_doubts where dataset = ${doubt.dataset} and url = ${doubt.url} and is_joint
      and doubt_id <> ${doubt.id}::bigint order by doubt_id for update
  `)
  if (value === null) return others
  const hasName = [{ ...doubt, decided: value }, ...others].some((one) =>
    one.field === "owner_name" && (one.decided ?? one.confirmable) !== null
  )
  if (!hasName) {
    return yield* new DoubtNotDecidable({
      message:
        "The document states only a part of what the holder owns, so its row shows no holder. Deciding on this " +
        "value would show a holder without a name. First use `ingest doubts correct` for `owner_name`.",
    })
  }
  return others.filter(({ confirmable, decided }) => decided === null && confirmable !== null)
})

/**
 * Records an operator's decision about a doubt: the value is what the document states or, if `chosen` is given, another
 * one (null: unknown). Changes the rows that are made from the element. If share counts depend on the value, the next
 * run computes the share counts of the company again.
 *
 * The company is locked first: a run that is loading its rows finishes before, and one that loads them later finds the
 * decision (`findLaterDecisions`).
 */
export const decideDoubt = Effect.fnUntraced(function* (id: number, chosen?: string | null) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`
      select from edgar_companies where cik = (select cik from edgar_doubts where doubt_id = ${id}::bigint)
      for no key update
    `
    const [doubt] = yield* decodeRows(StoredDoubt)(sql`
      select doubt_id::float8 as id, cik, dataset, url, field, read, confirmable, is_joint, published, decision, decided
      from edgar_doubts where doubt_id = ${id}::bigint for update
    `)
    if (doubt === undefined) {
      return yield* new DoubtNotDecidable({
        message: `There is no doubt ${id}. To list the doubts, run: tickerline ingest doubts`,
      })
    }
    const value = yield* checkValue(doubt, chosen)
    const others = doubt.is_joint ? yield* findJointDoubts(doubt, value) : []
    const tickers = yield* storeDecision(doubt, chosen === undefined ? "confirmed" : "corrected", value)
    yield* Effect.forEach(
      others,
      (other) =>
        value === null
          ? storeDecision(other, "corrected", null)
          : Effect.flatMap(checkValue(other, undefined), (stated) => storeDecision(other, "confirmed", stated)),
    )
    const isCount = isTableWithCounts(doubt.dataset)
    if (isCount) {
      yield* updateMarketCaps(tickers)
      yield* requestCountsAgain([{ cik: doubt.cik, table: doubt.dataset }])
    }
    return { ...doubt, value, isCount, rows: tickers.length, others: others.map(({ field }) => field) }
  }))
})
