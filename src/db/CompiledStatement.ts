/** SQL statements that are compiled once. A request only fills in the parameters. */
import type { Statement } from "effect/sql"

/** A statement to run. */
export interface CompiledStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
  /** False if PostgreSQL must plan the statement for the values of its parameters. */
  readonly isPrepared: boolean
}

/** A statement parameter, computed from the input. It stands in for the value while the SQL is compiled. */
export class StatementParameter<in Input, out Value> {
  readonly compute: (input: Input) => Value
  constructor(compute: (input: Input) => Value) {
    this.compute = compute
  }
  map<To>(transform: (value: Value) => To) {
    return new StatementParameter((input: Input) => transform(this.compute(input)))
  }
}

interface CompileOptions<Input> {
  readonly isPrepared: boolean
  readonly build: (
    parameter: <Value>(compute: (input: Input) => Value) => StatementParameter<Input, Value>,
  ) => Statement.Statement<object>
}

/** Compiles SQL whose values are parameters. Returns a function that fills them in. */
export const compileStatement = <Input>({ build, isPrepared }: CompileOptions<Input>) => {
  const [text, values] = build((compute) => new StatementParameter(compute)).compile()
  return (input: Input): CompiledStatement => ({
    text,
    parameters: values.map((value) => value instanceof StatementParameter ? value.compute(input) : value),
    isPrepared,
  })
}
