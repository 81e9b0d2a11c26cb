/** SQL statements that are compiled to text once. Each request only supplies the values of the parameters. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { Statement } from "effect/sql"

/** OIDs of PostgreSQL's built-in types, by name. */
export const { OID } = PgTypes

/**
 * Creates an array parameter with an explicit element type. Otherwise the driver would infer the type from the values,
 * and reject an array such as `[1, 2.5]`.
 */
export const makeArrayParameter = (values: ReadonlyArray<unknown>, elementType: number) =>
  Result.getOrThrow(PgTypes.array(values, elementType))

/** SQL text and the values of its parameters, ready to run. */
export interface CompiledStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
  /**
   * Whether PostgreSQL should keep a prepared statement. False if it is rarely repeated, or must be planned for its
   * values.
   */
  readonly isPrepared: boolean
  /** Whether it usually takes less than a millisecond, so that it may share a connection with other statements. */
  readonly isShort?: boolean | undefined
}

/**
 * Stands in for a value while the SQL is compiled. `compute` returns the value for an input, such as a decoded query.
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

/** Compiles the SQL once, and returns a function that fills in the parameters for an input. */
export const compileStatement = <Input>({ build, isPrepared, isShort }: CompileOptions<Input>) => {
  const [text, values] = build((compute) => new StatementParameter(compute)).compile()
  return (input: Input): CompiledStatement => ({
    text,
    parameters: values.map((value) => value instanceof StatementParameter ? value.compute(input) : value),
    isPrepared,
    isShort,
  })
}
