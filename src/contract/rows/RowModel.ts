/**
 * The model of a row: its columns, each with a schema for the value from the database driver and a schema for the value
 * in JSON.
 */
import { type Schema, SchemaAST } from "effect"
import { type ColumnType, type OptInColumn, optInColumns } from "./Columns.ts"

type Fields = { readonly [column: string]: Schema.Codec<unknown, unknown> }

/** A `Model.Class` with columns from `Columns.ts` and `Timestamps.ts`. */
export interface RowModel {
  readonly identifier: string
  /** Schemas for the values from the database driver. */
  readonly fields: Fields
  /** Schemas for the values in JSON. */
  readonly json: { readonly fields: Fields }
}

/** The model of the rows in a list. If there are several models, each row matches one of them. */
export type RowModels = RowModel | ReadonlyArray<RowModel>

/** Returns the models as an array, even if there is only one model. */
export const toRowModelArray = (models: RowModels): ReadonlyArray<RowModel> => "json" in models ? [models] : models

/** Returns the names of all columns in the order in which JSON contains them. Columns in `optInColumns` come last. */
export const getColumnNames = (models: RowModels): ReadonlyArray<string> => {
  const names = new Set(toRowModelArray(models).flatMap((model) => Object.keys(model.json.fields)))
  const added = Object.keys(optInColumns).filter((name) => names.delete(name))
  return [...names, ...added]
}

/** Appends the columns `source` or `lineage_ticker`, which responses contain only on request, to each model. */
export const addOptInColumns = (models: RowModels, names: ReadonlyArray<OptInColumn>): ReadonlyArray<RowModel> => {
  const selects = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.select]))
  const jsons = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.json]))
  return toRowModelArray(models).map(({ fields, identifier, json }) => ({
    identifier,
    fields: { ...fields, ...selects },
    json: { fields: { ...json.fields, ...jsons } },
  }))
}

/** Returns whether a schema is a union that includes null. */
export const isNullableSchema = (ast: SchemaAST.AST) => SchemaAST.isUnion(ast) && ast.types.some(SchemaAST.isNull)

/**
 * Returns the column type that a schema declares, or undefined if it declares none. If the schema is nullable, its
 * non-null member may declare the type.
 */
export const findColumnType = (ast: SchemaAST.AST): ColumnType | undefined =>
  SchemaAST.resolve(ast)?.columnType ??
    (SchemaAST.isUnion(ast) && isNullableSchema(ast)
      ? ast.types.map((type) => SchemaAST.resolve(type)?.columnType).find((type) => type !== undefined)
      : undefined)
