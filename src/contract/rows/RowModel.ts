/** The model of a row: its columns, with the schemas of the values that PostgreSQL sends and of the JSON. */
import { type Schema, SchemaAST } from "effect"
import { type ColumnType, type OptInColumn, optInColumns } from "./Columns.ts"

type Fields = { readonly [column: string]: Schema.Codec<unknown, unknown> }

/** A `Model.Class` with columns from `Columns.ts` and `Timestamps.ts`. */
export interface RowModel {
  readonly identifier: string
  /** Schemas of the driver's values. */
  readonly fields: Fields
  /** Schemas of the JSON. */
  readonly json: { readonly fields: Fields }
}

/** The model of the rows in a list. If there are several models, each row matches one of them. */
export type RowModels = RowModel | ReadonlyArray<RowModel>

/** Returns the models as an array, even if there is only one. */
export const toRowModelArray = (models: RowModels): ReadonlyArray<RowModel> => "json" in models ? [models] : models

/** Returns the names of all columns, in JSON order. `optInColumns` come last. */
export const getColumnNames = (models: RowModels): ReadonlyArray<string> => {
  const names = new Set(toRowModelArray(models).flatMap((model) => Object.keys(model.json.fields)))
  const added = Object.keys(optInColumns).filter((name) => names.delete(name))
  return [...names, ...added]
}

/** Adds columns to the models, after all other columns. */
export const addOptInColumns = (models: RowModels, names: ReadonlyArray<OptInColumn>): ReadonlyArray<RowModel> => {
  const selects = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.select]))
  const jsons = Object.fromEntries(names.map((name) => [name, optInColumns[name].schemas.json]))
  return toRowModelArray(models).map(({ fields, identifier, json }) => ({
    identifier,
    fields: { ...fields, ...selects },
    json: { fields: { ...json.fields, ...jsons } },
  }))
}

/** Whether a schema is a union that includes null. */
export const isNullableSchema = (ast: SchemaAST.AST) => SchemaAST.isUnion(ast) && ast.types.some(SchemaAST.isNull)

/**
 * Returns the column type that a schema or, if it is nullable, its other part declares; undefined if it declares none.
 */
export const findColumnType = (ast: SchemaAST.AST): ColumnType | undefined =>
  SchemaAST.resolve(ast)?.columnType ??
    (SchemaAST.isUnion(ast) && isNullableSchema(ast)
      ? ast.types.map((type) => SchemaAST.resolve(type)?.columnType).find((type) => type !== undefined)
      : undefined)
