/** Random statements and load files for datasets whose rows contain a token in a text column (see HistoryChecker). */
import { formatRowToken } from "./HistoryChecker.ts"
import type { Choices, RandomChooser } from "./RandomChoices.ts"

const thousandths: Choices<number> = [0, ...Array.from({ length: 999 }, (_, index) => (index + 1) / 1000)]

/** Returns a random number in [0, 1). */
export const chooseNumber = (choose: RandomChooser) => choose(thousandths)

/** Returns true with the given probability. */
export const happensWithProbability = (choose: RandomChooser, probability: number) => chooseNumber(choose) < probability

/** Returns a random integer from 0 to `limit - 1`. */
export const chooseInteger = (choose: RandomChooser, limit: number) => Math.floor(chooseNumber(choose) * limit)

/** The symbols used in the rows. */
export const historySymbols: Choices<string> = ["TA", "TB", "TC", "TD", "TE", "TF"]

interface HistoryTable {
  readonly name: string
  readonly key: ReadonlyArray<string>
  /** The column that contains the token. */
  readonly token: string
  readonly chooseKey: (choose: RandomChooser) => string
  /** Returns the cells of a row. `key` contains the values of the key columns, separated by spaces. */
  readonly makeRow: (key: string, symbol: string, token: string) => Readonly<Record<string, string>>
}

const news: HistoryTable = {
  name: "news",
  key: ["id"],
  token: "title",
  chooseKey: (choose) => `news-${chooseInteger(choose, 60)}`,
  makeRow: (id, ticker, title) => ({
    id,
    ticker,
    form_type: "news",
    title,
    filed_at: "2026-01-02",
    created_at: "2026-01-02 10:00:00",
    last_updated: "2026-01-02 10:00:00",
  }),
}

/** The tables to which the workload writes. */
export const historyTables: Choices<HistoryTable> = [
  news,
  {
    name: "research_reports",
    key: ["report_id"],
    token: "report_text",
    chooseKey: (choose) => `report-${chooseInteger(choose, 40)}`,
    makeRow: (report_id, ticker, report_text) => ({
      report_id,
      ticker,
      gain_percentage: "50",
      report_text,
      tldr_text: "Summary",
      created_at: "2026-01-02T15:00:00Z",
      last_updated: "2026-01-02T15:00:00Z",
    }),
  },
  {
    name: "split_status",
    key: ["id"],
    token: "details",
    chooseKey: (choose) => `split-${chooseInteger(choose, 40)}`,
    makeRow: (id, ticker, details) => ({
      id,
      ticker,
      action_type: "split_announced",
      executed: "false",
      details,
      filed_at: "2026-01-02",
      form_type: "8-K",
      last_updated: "2026-01-02 10:00:00",
    }),
  },
  {
    name: "ticker_changes",
    key: ["old_ticker", "new_ticker", "effective_date", "cik"],
    token: "company_name",
    chooseKey: (choose) =>
      `${choose(["OA", "OB", "OC", "TA"])} ${choose(["TB", "TC", "TD"])} 2025-0${choose([1, 2])}-01`,
    makeRow: (key, _, company_name) => {
      const [old_ticker = "", new_ticker = "", effective_date = ""] = key.split(" ")
      return { old_ticker, new_ticker, effective_date, company_name, status: "confirmed" }
    },
  },
]

const quote = (text: string) => `'${text}'`

const makeKeyExpression = ({ key }: HistoryTable) => `concat_ws(' ', ${key.join(", ")})`

/** A statement and its effect on rows. */
export interface HistoryStatement {
  readonly text: string
  readonly table: string
  /** Whether the statement writes the rows that it returns, deletes them, or deletes all rows of the table. */
  readonly effect: "writes" | "removes" | "truncates"
}

const chooseKeys = ({ chooseKey }: HistoryTable, choose: RandomChooser, count: number) =>
  Array.from(new Set(Array.from({ length: count }, () => chooseKey(choose))))

const makeUpsert = (table: HistoryTable, rows: ReadonlyArray<Readonly<Record<string, string>>>): HistoryStatement => {
  const columns = Object.keys(rows[0] ?? {})
  const values = rows.map((row) => `(${columns.map((column) => quote(row[column] ?? "")).join(", ")})`)
  const updated = columns.filter((column) => !table.key.includes(column))
  return {
    text: `insert into ${table.name} (${columns.join(", ")}) values ${values.join(", ")}
      on conflict (${table.key.join(", ")}) do update set ${
      updated.map((column) => `${column} = excluded.${column}`).join(", ")
    } returning ${makeKeyExpression(table)} as key, ${table.token} as token`,
    table: table.name,
    effect: "writes",
  }
}

/**
 * Returns a statement that writes a row with a token. With it, even a transaction that otherwise only deletes rows has
 * a token.
 */
export const makeMarkerStatement = (writer: number, token: string) =>
  makeUpsert(news, [news.makeRow(`writer-${writer}`, "TA", token)])

/**
 * Chooses a random statement on one of the history tables, with 1 to 20 keys. Each row version that it writes gets a
 * new token from `makeToken`, with which the version is recognized later. `effect` says what the caller must record:
 * rows with new tokens (`writes`), removed rows (`removes`), or an emptied table (`truncates`). An update that sets a
 * token to itself ("same") returns no rows, because the history must not record it.
 */
export const chooseStatement = (choose: RandomChooser, makeToken: () => string): HistoryStatement => {
  const table = choose(historyTables)
  const kind = choose(["upsert", "upsert", "upsert", "update", "update", "delete", "same"])
  if (happensWithProbability(choose, 0.02)) {
    return { text: `truncate ${table.name}`, table: table.name, effect: "truncates" }
  }
  const keys = chooseKeys(table, choose, choose([1, 1, 2, 3, 5, 20]))
  const keyList = keys.map(quote).join(", ")
  const returned = `returning ${makeKeyExpression(table)} as key, ${table.token} as token`
  if (kind === "upsert") {
    return makeUpsert(table, keys.map((key) => table.makeRow(key, choose(historySymbols), makeToken())))
  }
  if (kind === "update") {
    const values = keys.map((key) => `(${quote(key)}, ${quote(makeToken())})`).join(", ")
    const text = `update ${table.name} set ${table.token} = given.value from (values ${values}) as given (name, value)
      where ${makeKeyExpression(table)} = given.name ${returned}`
    return { text, table: table.name, effect: "writes" }
  }
  const text = kind === "delete"
    ? `delete from ${table.name} where ${makeKeyExpression(table)} in (${keyList}) ${returned}`
    : `update ${table.name} set ${table.token} = ${table.token} where ${makeKeyExpression(table)} in (${keyList})`
  return { text, table: table.name, effect: "removes" }
}

/** Creates a random file for the `load` command. Returns the file and the tokens of its rows. */
export const chooseLoadFile = (choose: RandomChooser, transaction: number, maxRows: number) => {
  const table = choose(historyTables)
  const keys = chooseKeys(table, choose, 1 + chooseInteger(choose, maxRows))
  const rows = keys.map((key, index) => table.makeRow(key, choose(historySymbols), formatRowToken(transaction, index)))
  const header = Object.keys(rows[0] ?? {})
  const lines = [header, ...rows.map((row) => Object.values(row))].map((cells) => cells.join(","))
  return {
    dataset: table.name,
    content: `${lines.join("\n")}\n`,
    tokens: rows.map((row) => row[table.token] ?? ""),
  }
}

/** Returns SQL that reads the key and the token of each row. */
export const makeTokenQuery = (table: HistoryTable) =>
  `select ${makeKeyExpression(table)} as key, ${table.token} as token from ${table.name}`
