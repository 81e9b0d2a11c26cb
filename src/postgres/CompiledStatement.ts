/** SQL statements that are compiled once. A request only fills in the parameters. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { Statement } from "effect/sql"

export const { OID } = PgTypes

/**
 * Makes an array parameter with an explicit element type. Otherwise the driver would infer the type from the values
 * and reject an array that mixes integers and fractions.
 */
export const makeArrayParameter = (values: ReadonlyArray<unknown>, elementType: number) =>
  Result.getOrThrow(PgTypes.array(values, elementType))

/** SQL text with the values of its parameters, ready to run. */
export interface CompiledStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
  /** False if the statement is seldom repeated, or if PostgreSQL must plan it anew for its values. */
  readonly isPrepared: boolean
  /** Whether it usually takes less than a millisecond, so that it may share a connection with others. */
  readonly isShort?: boolean | undefined
}

/** A parameter that stands in for its value while the SQL is compiled. `compute` returns the value for an input. */
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

/** Compiles SQL once. Returns a function that computes the values of the parameters from an input. */
export const compileStatement = <Input>({ build, isPrepared, isShort }: CompileOptions<Input>) => {
  const [text, values] = build((compute) => new StatementParameter(compute)).compile()
  return (input: Input): CompiledStatement => ({
    text,
    parameters: values.map((value) => value instanceof StatementParameter ? value.compute(input) : value),
    isPrepared,
    isShort,
  })
}
