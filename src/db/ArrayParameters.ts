/** Array parameters of statements. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

export const { OID } = PgTypes

/** A column of many rows as one parameter, in PostgreSQL's own binary form. */
export const arrayParameter = (values: ReadonlyArray<unknown>, oid: number) =>
  Result.getOrThrow(PgTypes.array(values, oid))
