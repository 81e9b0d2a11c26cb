/**
 * Stores doubts, that is, suspicious values in SEC documents (`edgar_doubts`), and applies operators' decisions about
 * them (`tickerline ingest doubts`).
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { requireDataset, type RowCells } from "../../../contract/Datasets.ts"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { makeBoundsCheck } from "../../load/ColumnBounds.ts"
import { updateMarketCaps } from "../../load/MarketCaps.ts"
import { buildCompanyFactsUrl, findCikInUrl } from "../fetch/EdgarUrls.ts"
import { type Doubt, formatDoubtKey, type OperatorDecision, type OperatorDecisions } from "../read/Doubt.ts"
import { findOwnerType, unknownKindReason } from "../read/Schedule13.ts"
import { readFraction } from "../read/XmlValues.ts"
import { datasetsWithCounts, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { requeueDocument } from "./IngestWork.ts"

/** An operator's decision was refused: no doubt has the given ID, or the doubt cannot be decided this way. */
export class DoubtNotDecidable extends Data.TaggedError("DoubtNotDecidable")<{ readonly message: string }> {}

const OptionalText = Schema.NullOr(Schema.String)

/** Returns whether the table has columns that depend on share counts. */
const isTableWithCounts = (table: string) => datasetsWithCounts.some((name) => name === table)

/** A stored decision of an operator, together with the suspicious value that it is about. */
export interface StoredDecision extends OperatorDecision, Pick<Doubt, "column" | "published" | "table" | "url"> {
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

/**
 * Reads operators' decisions about values in these companies' documents. The result is keyed by doubt
 * (`formatDoubtKey`).
 */
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

/**
 * Separates doubts: `decided` contains those that an operator has decided, paired with their decisions, and `open` the
 * others.
 */
export const splitDecidedDoubts = (doubts: ReadonlyArray<Doubt>, decisions: OperatorDecisions) => {
  const decided = doubts.flatMap((doubt) => {
    const decision = decisions.get(formatDoubtKey(doubt))
    return decision === undefined ? [] : [{ doubt, decision }]
  })
  return { decided, open: doubts.filter((doubt) => !decisions.has(formatDoubtKey(doubt))) }
}

/**
 * A change of one column from any of the values in `from` to `to`. It applies to rows that were built from the element
 * at `url`.
 */
interface CellChange {
  readonly table: string
  readonly column: string
  readonly url: string
  readonly from: ReadonlyArray<string | null>
  readonly to: string | null
}

/** A column whose value is derived from another column, which contains a suspicious value. */
interface DependentColumn {
  readonly table: string
  readonly column: string
  /** Computes the value of this column from the value of the other one. If absent, the values are equal. */
  readonly derive?: (value: string | null) => string | null
}

/**
 * Columns that must change together with another one (`table.column`), by that other one. For example, a company's
 * current count repeats a count in `historical_float_pro`.
 */
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

/**
 * Returns the cell changes that a decision about a column requires, including those of dependent columns. Returns none
 * for a public float: it is only part of a sentence in `details`, which the next run writes again.
 */
const listChanges = (
  { column, table, url }: Pick<Doubt, "column" | "table" | "url">,
  from: ReadonlyArray<string | null>,
  to: string | null,
): ReadonlyArray<CellChange> => {
  const columns: ReadonlyArray<DependentColumn> = [{ table, column }, ...dependentColumns[`${table}.${column}`] ?? []]
  return column === "details" ? [] : columns.map(({ column, derive = (value) => value, table }) => ({
    table,
    column,
    url,
    from: from.map(derive),
    to: derive(to),
  }))
}

/**
 * Applies changes to the cells of rows that have not been loaded yet. A change sets `column` to `to` in each row of its
 * table that was built from the element with the URL `url` and has one of the values in `from`.
 */
export const changeRowCells = (
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
      const isAffected = Array.isArray(source) && source.includes(url)
      return isAffected && from.includes(typeof cell === "string" ? cell : null) ? [[column, to] as const] : []
    })
    return { ...cells, ...Object.fromEntries(values) }
  })
}

/**
 * Returns the changes that put the decided values into newly built rows, which contain the values that are published as
 * long as there is no decision.
 */
export const listDecidedChanges = (decided: ReturnType<typeof splitDecidedDoubts>["decided"]) =>
  decided.flatMap(({ decision, doubt }) => listChanges(doubt, [doubt.published], decision.value))

/** The decisions that were known when a company's rows were built. The rows already contain the decided values. */
export interface AppliedDecisions {
  readonly cik: string
  readonly decisions: OperatorDecisions
}

/**
 * Finds decisions about these companies that were made or replaced after the rows had been built (`used` contains those
 * that are already applied). Returns these decisions and the changes to the rows that they require. The caller has
 * locked the companies, so no further decision about them can be made before its transaction ends.
 */
export const findLaterDecisions = Effect.fnUntraced(function* (used: ReadonlyArray<AppliedDecisions>) {
  const ciks = Array.from(new Set(used.map(({ cik }) => cik)))
  const later = Array.from(yield* readDecisions(ciks)).flatMap(([key, stored]) => {
    // The values that the rows may contain. There are several if the batch has rows from several visits to the company.
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

/**
 * For each company with a decision about a share count, queues the company facts again, so that the next run recomputes
 * everything that depends on the count.
 */
export const requestCountsAgain = (decisions: ReadonlyArray<Pick<StoredDecision, "cik" | "table">>) =>
  Effect.forEach(
    new Set(decisions.flatMap(({ cik, table }) => isTableWithCounts(table) ? [cik] : [])),
    (cik) => requeueDocument(buildCompanyFactsUrl(cik)),
    { discard: true },
  )

/**
 * Replaces the stored open doubts about the documents that were read (`readUrls`) with the doubts that were found now.
 * Affects only the datasets that the run fills. Doubts that an operator has decided do not change.
 */
export const saveDoubts = Effect.fnUntraced(function* (
  { doubts, readUrls }: { readonly doubts: ReadonlyArray<Doubt>; readonly readUrls: ReadonlyArray<string> },
  filled: ReadonlyArray<IngestedDataset>,
) {
  const sql = yield* SqlClient.SqlClient
  // Reading a company's documents finds doubts about all share counts, even if the run fills only one of the datasets
  // with counts.
  const hasCounts = datasetsWithCounts.some((name) => filled.includes(name))
  const datasets = hasCounts ? [...filled, ...datasetsWithCounts] : filled
  // A statement cannot insert and update the same row, so each doubt is used only once.
  const foundDoubts = JSON.stringify(
    Array.from(new Map(doubts.map((doubt) => [formatDoubtKey(doubt), doubt])).values(), (doubt) => ({
      ...doubt,
      cik: findCikInUrl(doubt.url),
    })),
  )
  const ciks = Array.from(new Set(readUrls.flatMap((url) => findCikInUrl(url) ?? [])))
  // Delete the open doubts about the documents that were not found again.
  yield* sql`
    delete from edgar_doubts as known
    where cik = any(${ciks}::text[]) and decision is null and dataset = any(${datasets}::text[])
      and split_part(url, '#', 1) in (select jsonb_array_elements_text(${JSON.stringify(readUrls)}::text::jsonb))
      and not exists (
        select from jsonb_to_recordset(${foundDoubts}::text::jsonb)
          as found ("table" text, url text, "column" text, read text)
        where found."table" = known.dataset and found.url = known.url and found."column" = known.field
          and found.read = known.read
      )
  `
  if (doubts.length === 0) return
  yield* sql`
    insert into edgar_doubts as known (cik, dataset, url, field, read, confirmable, is_joint, published, reason)
    select cik, "table", url, "column", read, confirmable, coalesce("isJoint", false), published, reason
    from jsonb_to_recordset(${foundDoubts}::text::jsonb) as found (
      cik text, "table" text, url text, "column" text, read text, confirmable text, "isJoint" boolean, published text,
      reason text
    )
    on conflict (dataset, url, field, read) do update set confirmable = excluded.confirmable,
      is_joint = excluded.is_joint, published = excluded.published, reason = excluded.reason
    where known.decision is null
  `
})

/** A doubt as presented to operators. */
const ListedDoubt = Schema.Struct({
  id: Schema.Finite,
  ticker: OptionalText,
  dataset: Schema.String,
  column: Schema.String,
  /** The value that the document states. Empty if it states none. */
  read: Schema.String,
  /** The value that the row contains. */
  published: OptionalText,
  reason: Schema.String,
  document: Schema.String,
  decision: OptionalText,
})

/** A filter for the doubts to list. */
export interface DoubtFilter {
  readonly ticker?: string | undefined
  readonly dataset?: string | undefined
  /** Whether to list decided doubts instead of open ones. */
  readonly isDecided: boolean
}

/** Lists the doubts that match the filter, ordered by company symbol. */
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

/** Counts the doubts that await an operator's decision. */
export const countOpenDoubts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeRows(Schema.Struct({ count: Schema.Finite }))(sql`
    select count(*)::float8 as count from edgar_doubts where decision is null
  `)
  return row?.count ?? 0
})

/**
 * A row of `edgar_doubts`. The affected row of the dataset contains `published` before a decision and `decided` after
 * it.
 */
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
 * Returns the value to publish: `chosen` (null means unknown) or, if that is undefined, the value that the document
 * states. Fails if the document does not state a usable value or if the value is not valid for the column.
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
  // Doubts about `details` concern the public float, which does not have its own column but is part of a sentence.
  if (field === "details") {
    return value === null || /^\d{1,15}$/.test(value) ? value : yield* refuse("has an amount in whole USD")
  }
  const column = Object.entries(dataset.row.fields).find(([name]) => name === field)?.[1]
  if (column === undefined) return yield* refuse("is not a column")
  if (value === null) return Schema.is(column)(null) ? value : yield* refuse("cannot be unknown")
  if (field === "percent_of_class" && !/^(0(\.\d+)?|1(\.0+)?)$/.test(value)) {
    const advice = chosen === undefined ? ". Use `ingest doubts correct`" : ""
    return yield* refuse(`is a fraction from 0 to 1, such as 0.0750 for 7.5 percent${advice}`)
  }
  // A holder is found by its CIK, so another spelling would be another holder.
  if (field === "owner_cik" && !/^\d{10}$/.test(value)) return yield* refuse("has ten digits, such as 0000000042")
  yield* Effect.mapError(Schema.decodeUnknownEffect(column)(value), ({ message }) => refuse(message))
  // The tables accept 0 from other sources. The ingest does not, neither from a document nor from an operator: no
  // company has 0 shares.
  if (field === "outstanding_shares" && Number(value) === 0) {
    return yield* refuse("is never 0. If it is unknown, use `--null`")
  }
  // The value must be within the bounds of the table's column, or the row could not be stored.
  const [problem] = (yield* makeBoundsCheck(dataset))({ [field]: value })
  return problem === undefined ? value : yield* refuse(problem.reason)
})

/** Applies a change to the rows in the table. Returns the symbols of the changed rows. */
const changeRows = Effect.fnUntraced(function* ({ column, from, table, to, url }: CellChange) {
  const sql = yield* SqlClient.SqlClient
  const name = sql(column)
  // Converts text to the column's type. Only the table definition contains the type, so the text is put into a JSON
  // object, which PostgreSQL converts to a row of the table.
  const convertToColumnType = (text: string | null) =>
    sql`(jsonb_populate_record(null::${sql(table)}, jsonb_build_object(${column}::text, ${text}::text))).${name}`
  const isAffected = sql`
    source @> array[${url}::text] and ${name} is distinct from ${convertToColumnType(to)}
      and ${sql.or(from.map((value) => sql`${name} is not distinct from ${convertToColumnType(value)}`))}
  `
  // Even an update that affects no rows would change the dataset's version and thereby expire cached responses.
  const found = yield* sql<{ readonly ticker: string }>`select ticker from ${sql(table)} where ${isAffected}`
  if (found.length > 0) yield* sql`update ${sql(table)} set ${name} = ${convertToColumnType(to)} where ${isAffected}`
  return found.map(({ ticker }) => ticker)
})

/**
 * Stores a decision about one doubt, records it in the audit log, and updates the rows. Returns the symbols of the
 * changed rows.
 */
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
 * Returns the other doubts that the caller must decide together with a joint doubt.
 *
 * Doubts are joint if a document may state only part of a holder's holdings. The row then shows no holder, and the
 * doubts about all of the holder's values are decided together. If the operator sets a value, the stated values of the
 * others are confirmed, so that the whole holder is shown. If the operator declares the value unknown (null), all of
 * them become unknown, unless the holder is shown already and keeps its name. Fails if the holder would be shown
 * without a name.
 */
const findJointDoubts = Effect.fnUntraced(function* (doubt: typeof StoredDoubt.Type, value: string | null) {
  const sql = yield* SqlClient.SqlClient
  const others = yield* decodeRows(StoredDoubt)(sql`
    select doubt_id::float8 as id, cik, dataset, url, field, read, confirmable, is_joint, published, decision, decided
    from edgar_doubts where dataset = ${doubt.dataset} and url = ${doubt.url} and is_joint
      and doubt_id <> ${doubt.id}::bigint order by doubt_id for update
  `)
  if (value === null) {
    const isShown = others.some(({ decided }) => decided !== null)
    return isShown && doubt.field !== "owner_name" ? [] : others
  }
  const hasName = [{ ...doubt, decided: value }, ...others].some((one) =>
    one.field === "owner_name" && (one.decided ?? one.confirmable) !== null
  )
  if (!hasName) {
    return yield* new DoubtNotDecidable({
      message: "The document may state only a part of what the holder owns, so its row shows no holder. Deciding on " +
        "this value would show a holder without a name. First use `ingest doubts correct` for `owner_name`.",
    })
  }
  return others.filter(({ confirmable, decided }) => decided === null && confirmable !== null)
})

/** Columns of `ownership` that a filing states once, so that the rows of all its holders have the same value. */
const columnsOfFiling = new Set(["ownership.event_date", "ownership.reported_date"])

/**
 * Returns the doubts about the same statement in the rows of the filing's other holders. They get the same decision,
 * because all rows repeat the dates of the filing.
 */
const findRepeatedDoubts = Effect.fnUntraced(function* ({ dataset, field, id, read, url }: typeof StoredDoubt.Type) {
  if (!columnsOfFiling.has(`${dataset}.${field}`)) return []
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(StoredDoubt)(sql`
    select doubt_id::float8 as id, cik, dataset, url, field, read, confirmable, is_joint, published, decision, decided
    from edgar_doubts where dataset = ${dataset} and field = ${field} and read = ${read} and not is_joint
      and split_part(url, '#', 1) = ${url.split("#")[0] ?? url} and doubt_id <> ${id}::bigint
    order by doubt_id for update
  `)
})

/**
 * Fails if a decision would put the amount of a class into the columns for both kinds of shares, common and preferred.
 * If the title of the class does not say which kind it is, the amount is doubtful in both columns, but only one of them
 * can be right.
 */
const requireOneKind = Effect.fnUntraced(function* ({ dataset, field, id, url }: typeof StoredDoubt.Type) {
  const sql = yield* SqlClient.SqlClient
  const [other] = yield* sql`
    select from edgar_doubts where dataset = ${dataset} and url = ${url} and doubt_id <> ${id}::bigint
      and reason = ${unknownKindReason} and decided is not null
      and exists (select from edgar_doubts where doubt_id = ${id}::bigint and reason = ${unknownKindReason})
  `
  if (other !== undefined) {
    return yield* new DoubtNotDecidable({
      message: `The other column has the amount, so ${dataset}.${field} cannot have it, too. First use ` +
        "`ingest doubts correct` with `--null` for the other column.",
    })
  }
})

/**
 * Locks the company of the doubt with this ID and then the doubt, and returns the doubt. Fails if there is none. A run
 * that is loading the company's rows therefore finishes before the decision is made, and a run that loads them later
 * finds the decision (`findLaterDecisions`).
 */
const lockDoubt = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    select from edgar_companies where cik = (select cik from edgar_doubts where doubt_id = ${id}::bigint)
    for no key update
  `
  const [doubt] = yield* decodeRows(StoredDoubt)(sql`
    select doubt_id::float8 as id, cik, dataset, url, field, read, confirmable, is_joint, published, decision, decided
    from edgar_doubts where doubt_id = ${id}::bigint for update
  `)
  return doubt ?? (yield* new DoubtNotDecidable({
    message: `There is no doubt ${id}. To list the doubts, run: tickerline ingest doubts`,
  }))
})

/**
 * Records an operator's decision about the doubt with this ID. The value is `chosen` (null means unknown) or, if that
 * is undefined, the value that the document states. Updates the rows built from the element. If share counts depend on
 * the value, the next run recomputes the company's share counts.
 *
 * Returns the doubt as it was before, the `value`, whether share counts depend on it (`isCount`), the number of
 * values that it changed in rows (`changedValues`), and the columns of the `others` that were decided together with it.
 */
export const decideDoubt = Effect.fnUntraced(function* (id: number, chosen?: string | null) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function* () {
    const doubt = yield* lockDoubt(id)
    const value = yield* checkValue(doubt, chosen)
    if (value !== null) yield* requireOneKind(doubt)
    const others = doubt.is_joint ? yield* findJointDoubts(doubt, value) : []
    const decision = chosen === undefined ? "confirmed" : "corrected"
    // All rows of a filing repeat its dates, so the doubts about them get the same decision.
    const decided = [doubt, ...yield* findRepeatedDoubts(doubt)]
    const tickers = (yield* Effect.forEach(decided, (one) => storeDecision(one, decision, value))).flat()
    // If the value is unknown, so are the others. Otherwise, the values that the document states are confirmed.
    const decideOther = (other: typeof StoredDoubt.Type) =>
      value === null
        ? storeDecision(other, "corrected", null)
        : Effect.flatMap(checkValue(other, undefined), (stated) => storeDecision(other, "confirmed", stated))
    const tickersOfOthers = yield* Effect.forEach(others, decideOther)
    const isCount = isTableWithCounts(doubt.dataset)
    if (isCount) {
      yield* updateMarketCaps(tickers)
      yield* requestCountsAgain([{ cik: doubt.cik, table: doubt.dataset }])
    }
    const changedValues = tickers.length + tickersOfOthers.flat().length
    return { ...doubt, value, isCount, changedValues, others: others.map(({ field }) => field) }
  }))
})
