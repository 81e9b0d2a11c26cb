/**
 * How query parameters filter rows. A parameter declares its filter as the schema annotation `filter`, from which
 * `query/lists/Conditions.ts` compiles SQL.
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
  /** The column equals one of the codes, either as sent or converted to capital or to small letters (D33). */
  | "oneOfCodes"
  /** The number is at least the value (D9). */
  | "atLeast"
  /** The number is at most the value (D9). */
  | "atMost"
  /** The date is the given day (D7). */
  | "onDay"
  /** The date is the given day or later (D7). */
  | "fromDay"
  /** The date is the given day or earlier (D7). */
  | "toDay"
  /** The instant is on the given day or later. Days run from midnight to midnight at -05:00 (§2.1). */
  | "fromDayOfInstant"
  /** The instant is on the given day or earlier. Days run from midnight to midnight at -05:00 (§2.1). */
  | "toDayOfInstant"
  /** The text contains the value, ignoring case. */
  | "contains"
  /** An element of the array contains the value, ignoring case. */
  | "elementContains"
  /** An element of the array equals one of the values, ignoring case (D33). */
  | "hasElement"
  /** The `tsvector` (text search document) matches the words. */
  | "matchesWords"

/** The decoded parameters of a request. */
export interface DecodedQuery {
  readonly [name: string]: unknown
}

/** How a parameter selects rows. */
export type FilterDeclaration =
  | {
    readonly operator: FilterOperator
    /** Defaults to the parameter's name. */
    readonly column?: string
    /**
     * Whether the parameter refuses days after today. If it does, `load` refuses days after tomorrow in the column
     * (D42).
     */
    readonly refusesFuture?: true
  }
  /** `condition` returns a SQL condition that depends on several parameters, or undefined for no condition. */
  | { readonly operator: "literal"; readonly condition: (query: DecodedQuery) => string | undefined }
  /** Adds no condition: the handler uses the value elsewhere in its statement, for example in `order by`. */
  | {
    readonly operator: "statement"
    /** Whether it excludes rows, so that it can be the reason why a list is empty (D40). */
    readonly narrows?: true
  }

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly filter?: FilterDeclaration | undefined
      /** Whether a list drops invalid entries instead of refusing the request (D5). */
      readonly dropsInvalidEntries?: boolean | undefined
    }
  }
}

/** The schema of a query. `fields` are its parameters. */
export interface QuerySchema {
  readonly fields: Schema.Struct.Fields
}

/** Returns the filter that a parameter declares. */
export const getFilterDeclaration = ({ ast }: { readonly ast: SchemaAST.AST }): FilterDeclaration | undefined =>
  SchemaAST.resolve(ast)?.filter
