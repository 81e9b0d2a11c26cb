/**
 * Defines which rows and columns endpoints show. The feed contains no other rows and columns
 * (docs/decisions/0121-feed-shows-endpoint-rows.md). The endpoints' own SQL contains the same conditions.
 */
import type { SqlClient, Statement } from "effect/sql"
import { type LoadableDataset, loadableDatasets } from "../../contract/Datasets.ts"
import { optInColumns } from "../../contract/rows/Columns.ts"
import { getColumnNames, type RowModel } from "../../contract/rows/RowModel.ts"
import { selectRecord } from "../rows/RowEncoder.ts"
import { makeEligibleChangeCondition, makeFormerTickerCondition } from "../../contract/rules/EffectiveDates.ts"
import { type ChangeFeedDataset, changeFeedDatasets } from "../../contract/endpoints/changes.ts"
import { tradableFloatSql } from "../../contract/endpoints/historical-float-pro.ts"
import { intradayRunnerSqlCondition } from "../../contract/endpoints/intraday-runners.ts"
import { ownershipHolderSqlCondition } from "../../contract/endpoints/ownership.ts"
import { ResearchReportTldr } from "../../contract/endpoints/research-reports.ts"

interface ShownRows {
  /**
   * The condition for rows that endpoints may return on the day `today`. If it is missing, they may return all rows.
   */
  readonly condition?: (sql: SqlClient.SqlClient, today: Statement.Fragment) => Statement.Fragment
  /** A second model, for columns that are missing from the dataset's own model. */
  readonly otherModel?: RowModel
  /** SQL expressions for columns that are computed from other columns of the row. */
  readonly computed?: Readonly<Record<string, string>>
}

/** The datasets of which endpoints do not show all rows, or show columns that need special treatment. */
const shownRows: Partial<Readonly<Record<ChangeFeedDataset, ShownRows>>> = {
  ticker_changes: { condition: makeEligibleChangeCondition },
  historical_tickers: { condition: makeFormerTickerCondition },
  intraday_runners: { condition: (sql) => sql.literal(intradayRunnerSqlCondition) },
  ownership: { condition: (sql) => sql.literal(ownershipHolderSqlCondition) },
  research_reports: { otherModel: ResearchReportTldr },
  historical_float_pro: { computed: { tradable_float: tradableFloatSql } },
}

/** The rows and columns of a dataset that endpoints show. */
export interface ShownDataset extends Pick<ShownRows, "condition">, Pick<LoadableDataset, "key" | "row"> {
  readonly table: ChangeFeedDataset
  /** The columns, in the same order as in responses. */
  readonly model: RowModel
  /** SQL that selects a record of these columns, in the same order. */
  readonly selection: string
}

const sourceModel: RowModel = {
  identifier: "Sources",
  fields: { source: optInColumns.source.schemas.select },
  json: { fields: { source: optInColumns.source.schemas.json } },
}

/** Creates a model with the given columns, in the given order, taken from several models. */
export const selectColumns = (models: readonly [RowModel, ...Array<RowModel>], columns: ReadonlyArray<string>) => {
  const select = (read: (model: RowModel) => RowModel["fields"]) =>
    Object.fromEntries(columns.flatMap((column) => {
      const schema = models.map(read).find((fields) => column in fields)?.[column]
      return schema === undefined ? [] : [[column, schema]]
    }))
  const model: RowModel = {
    identifier: models[0].identifier,
    fields: select(({ fields }) => fields),
    json: { fields: select(({ json }) => json.fields) },
  }
  return model
}

/**
 * Determines which columns of a dataset endpoints show, and how SQL selects them. Omits columns that depend on other
 * rows; for example, `market_cap` depends on prices. A column is shown if the dataset's model or an additional model
 * has it, and if it is a column of the table or computed from the row. `row` is the schema of the table's columns, and
 * `shownRows` describes the few datasets that have an additional model, computed columns, or rows that are not shown.
 */
const describeShownDataset = (table: ChangeFeedDataset): ShownDataset => {
  const dataset = loadableDatasets.find((dataset) => dataset.table === table)
  if (dataset === undefined) throw new Error(`There is no dataset ${table}`)
  const { key, model, row } = dataset
  const { computed = {}, condition, otherModel } = shownRows[table] ?? {}
  // Only the opt-in column `source` is shown. Other columns with that name, such as the one in `ticker_changes`, are
  // not.
  const hasSources = row.fields["source"] === optInColumns.source.schemas.insert
  const others = [...(otherModel === undefined ? [] : [otherModel]), ...(hasSources ? [sourceModel] : [])]
  const models = [model, ...others] as const
  const columns = getColumnNames(models).filter((column) => column in row.fields || column in computed)
  const shown = selectColumns(models, columns)
  return {
    table,
    key,
    row,
    ...(condition === undefined ? {} : { condition }),
    model: shown,
    selection: selectRecord(shown, columns, (column) => column in computed ? `(${computed[column]})` : `"${column}"`),
  }
}

/** The rows and columns that endpoints show, for each dataset in the feed. */
export const shownDatasets: ReadonlyArray<ShownDataset> = changeFeedDatasets.map(describeShownDataset)

const partlyShown = new Set<string>(
  shownDatasets.flatMap(({ condition, table }) => condition === undefined ? [] : [table]),
)

/** Returns whether endpoints never show some of the dataset's rows, or show them only from a certain day on. */
export const isPartlyShown = (dataset: string) => partlyShown.has(dataset)
