/**
 * Filters for query parameters. A parameter declares its filter as the schema annotation `filter`;
 * `lists/Conditions.ts` compiles the declarations to SQL.
 */
import { Schema, SchemaAST } from "effect"

/** Operators that compare a column with the value of the parameter. */
export type FilterOperator =
  /** The column equals the value. */
  | "equals"
  /** The column is one of the values. */
  | "oneOf"
  /** The column is one of the values, ignoring case (D33). */
  | "oneOfIgnoringCase"
  /** The number is at least, or at most, the value (D9). */
  | "atLeast"
  | "atMost"
  /** The date is the given day, is on or after it, or is on or before it (D7). */
  | "onDay"
  | "fromDay"
  | "toDay"
  /** The instant is on or after, or on or before, the day. Days run from midnight to midnight at -05:00 (§2.1). */
  | "fromDayOfInstant"
  | "toDayOfInstant"
  /** The text contains the value, ignoring case. */
  | "contains"
  /** An element of the array contains the value, ignoring case. */
  | "elementContains"
  /** An element of the array equals the value, ignoring case (D33). */
  | "hasElement"
  /** The `tsvector` (text search document) matches the words. */
  | "matchesWords"

/** The decoded parameters of a request. */
export interface DecodedQuery {
  readonly [name: string]: unknown
}

export type FilterDeclaration =
  | {
    readonly operator: FilterOperator
    /** Defaults to the name of the parameter. */
    readonly column?: string
  }
  /** A fixed SQL condition that depends on several parameters; undefined means no condition. */
  | { readonly operator: "literal"; readonly condition: (query: DecodedQuery) => string | undefined }
  /** No condition: the handler uses the value elsewhere in its statement, for example in `order by`. */
  | { readonly operator: "statement" }

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly filter?: FilterDeclaration | undefined
    }
  }
}

/** The schema of a query. `fields` are its parameters. */
export interface QuerySchema {
  readonly fields: Schema.Struct.Fields
  readonly Type: DecodedQuery
}

/** Returns the filter that a parameter declares. */
export const getFilterDeclaration = ({ ast }: { readonly ast: SchemaAST.AST }): FilterDeclaration | undefined =>
  SchemaAST.resolve(ast)?.filter
