/** SQL statements that are compiled to text only once. Each request supplies only the parameter values. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { Statement } from "effect/sql"

/** The OIDs of PostgreSQL's built-in types, by name. */
export const { OID } = PgTypes

/**
 * Creates an array parameter with an explicit element type. Without one, the driver would infer the type from the
 * values and reject an array such as `[1, 2.5]`.
 */
export const makeArrayParameter = (values: ReadonlyArray<unknown>, elementType: number) =>
  Result.getOrThrow(PgTypes.array(values, elementType))

/** SQL text with its parameter values, ready to run. */
export interface CompiledStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
  /**
   * Whether to use a prepared statement. False if the statement is rarely repeated, or needs a plan for its specific
   * values.
   */
  readonly isPrepared: boolean
  /**
   * Whether the statement usually takes less than a millisecond and may therefore share a connection with other
   * statements.
   */
  readonly isShort?: boolean | undefined
}

/**
 * A placeholder for a value while the SQL is compiled. `compute` derives the value from an input, such as a decoded
 * query.
 */
export class StatementParameter<in Input, out Value> {
  readonly compute: (input: Input) => Value
  constructor(compute: (input: Input) => Value) {
    this.compute = compute
  }
  map<To>(transform: (value: Value) => To) {
    return new StatementParameter((input: Input) => transform(this.compute(input)))
  }
}

interface CompileOptions<Input> extends Pick<CompiledStatement, "isPrepared" | "isShort"> {
  readonly build: (
    parameter: <Value>(compute: (input: Input) => Value) => StatementParameter<Input, Value>,
  ) => Statement.Statement<object>
}

/** Compiles a statement once, and returns a function that computes the parameter values for an input. */
export const compileStatement = <Input>({ build, isPrepared, isShort }: CompileOptions<Input>) => {
  const [text, values] = build((compute) => new StatementParameter(compute)).compile()
  return (input: Input): CompiledStatement => ({
    text,
    parameters: values.map((value) => value instanceof StatementParameter ? value.compute(input) : value),
    isPrepared,
    isShort,
  })
}
