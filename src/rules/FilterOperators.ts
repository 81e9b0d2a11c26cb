/**
 * What a query parameter stands for: a column and an operator. Parameters declare it as the annotation `filter` of
 * their schema; `Where.ts` compiles the declarations of a query to SQL.
 */
import { Schema, SchemaAST } from "effect"

/** Operators that compare a column with the value of the parameter. */
export type ColumnOperator =
  /** The column equals the value. */
  | "equals"
  /** The column is one of the texts. */
  | "oneOf"
  /** The same, ignoring case (D33). */
  | "oneOfIgnoringCase"
  /** Inclusive bounds of a number (D9). */
  | "atLeast"
  | "atMost"
  /** Days of a `date` column (D7). */
  | "onDay"
  | "fromDay"
  | "toDay"
  /** Days of a `timestamptz` column, midnight to midnight at -05:00 (§2.1). */
  | "fromDayOfInstant"
  | "toDayOfInstant"
  /** The text contains the value, in any case. */
  | "contains"
  /** An element of the array contains the value, in any case. */
  | "elementContains"
  /** An element of the array equals the value, ignoring case (D33). */
  | "hasElement"
  /** The `tsvector` matches the words. */
  | "matchesWords"

export type FilterDeclaration =
  | {
    readonly operator: ColumnOperator
    /** If left out, the column has the name of the parameter. */
    readonly column?: string
  }
  /** A condition whose SQL the handler gives. */
  | { readonly operator: "custom" }
  /** No condition: the handler builds its statement from the value, for example the order. */
  | { readonly operator: "statement" }

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly filter?: FilterDeclaration | undefined
    }
  }
}

/** Marks a parameter whose condition the handler has to give; the compiler asks for it there. */
export interface CustomFilter {
  readonly isCustom: true
}

/** A parameter whose condition the handler gives. */
export const customFilter = <Field extends Schema.Top>(field: Field): Field["Rebuild"] & CustomFilter =>
  Object.assign(field.annotate({ filter: { operator: "custom" } }), { isCustom: true } as const)

/** The schema of a query; `fields` are its parameters. */
export interface QuerySchema {
  readonly fields: Schema.Struct.Fields
  readonly Type: { readonly [name: string]: unknown }
}

/** What a parameter declares; undefined if it declares nothing. */
export const getFilter = ({ ast }: { readonly ast: SchemaAST.AST }): FilterDeclaration | undefined =>
  SchemaAST.resolve(ast)?.filter
