/** Typed array parameters for SQL statements. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

export const { OID } = PgTypes

/**
 * An array with an explicit element type. The driver infers types from the values, and rejects arrays that mix integers
 * with fractions.
 */
export const arrayParameter = (values: ReadonlyArray<unknown>, elementType: number) =>
  Result.getOrThrow(PgTypes.array(values, elementType))
