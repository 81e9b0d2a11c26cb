/** Typed array parameters for SQL statements. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

export const { OID } = PgTypes

/**
 * Makes an array parameter with an explicit element type. Otherwise the driver would infer the type from the values
 * and reject an array that mixes integers and fractions.
 */
export const makeArrayParameter = (values: ReadonlyArray<unknown>, elementType: number) =>
  Result.getOrThrow(PgTypes.array(values, elementType))
