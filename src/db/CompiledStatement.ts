/** A statement whose text and parameters are ready to send. */
export interface CompiledStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
  readonly isPrepared: boolean
}
