/**
 * Declares how query parameters filter rows. Each parameter has a schema annotation named `filter`, which
 * `query/lists/FilterConditions.ts` compiles to SQL.
 */
import { Schema, SchemaAST } from "effect"

/** Operators that compare a column with the parameter's value. */
export type FilterOperator =
  /** The column equals the parameter's value. */
  | "equals"
  /** The column equals one of the parameter's values. */
  | "oneOf"
  /** The column equals one of the parameter's values, ignoring case (D33). */
  | "oneOfIgnoringCase"
  /**
   * The column, which is all upper case or all lower case, equals one of the codes as sent, in upper case or in lower
   * case (D33).
   */
  | "oneOfCodes"
  /** The number is greater than or equal to the value (D9). */
  | "atLeast"
  /** The number is less than or equal to the value (D9). */
  | "atMost"
  /** The date equals the given day (D7). */
  | "onDay"
  /** The date is on or after the given day (D7). */
  | "fromDay"
  /** The date is on or before the given day (D7). */
  | "toDay"
  /** The instant is on or after the given day. Days begin at midnight at -05:00 (§2.1). */
  | "fromDayOfInstant"
  /** The instant is on or before the given day. Days begin at midnight at -05:00 (§2.1). */
  | "toDayOfInstant"
  /** The text contains the value, ignoring case. */
  | "contains"
  /** An array element contains the value, ignoring case. */
  | "elementContains"
  /** An array element equals one of the values, ignoring case (D33). */
  | "hasElement"
  /** The `tsvector` (text search document) matches the search words. */
  | "matchesWords"

/** A request's decoded parameters. */
export interface DecodedQuery {
  readonly [name: string]: unknown
}

/** Describes how a parameter filters rows. */
export type FilterDeclaration =
  | {
    readonly operator: FilterOperator
    /** The column to filter. Defaults to the parameter's name. */
    readonly column?: string
    /**
     * Whether the parameter rejects dates after today. If so, `load` rejects dates after tomorrow in the column (D42).
     */
    readonly refusesFuture?: true
  }
  /**
   * Depends on several parameters: `condition` returns the SQL text of the condition, or undefined if rows are not
   * filtered.
   */
  | { readonly operator: "literal"; readonly condition: (query: DecodedQuery) => string | undefined }
  /**
   * Adds no condition to the SQL statement. Instead, the endpoint's handler uses the value elsewhere in the statement,
   * for example in `order by`.
   */
  | {
    readonly operator: "statement"
    /** Whether the parameter excludes rows and can therefore be the reason why a list is empty (D40). */
    readonly narrows?: true
  }

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly filter?: FilterDeclaration | undefined
      /** Whether a parameter whose value is a list ignores invalid entries instead of rejecting the request (D5). */
      readonly dropsInvalidEntries?: boolean | undefined
    }
  }
}

/** The schema of a query. `fields` contains the schemas of its parameters. */
export interface QuerySchema {
  readonly fields: Schema.Struct.Fields
}

/** Returns the filter declared by a parameter, if any. */
export const getFilterDeclaration = ({ ast }: { readonly ast: SchemaAST.AST }): FilterDeclaration | undefined =>
  SchemaAST.resolve(ast)?.filter
