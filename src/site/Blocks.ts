/** Fenced blocks that are more than text: what the code knows is told from there, so that no guide repeats it. */
import { Effect } from "effect"
import { chain } from "./blocks/Chain.ts"
import { converter } from "./blocks/Converter.ts"
import { deprecations } from "./blocks/Deprecations.ts"
import { tables } from "./blocks/Tables.ts"
import type { Blocks } from "./Markdown.ts"

export const blocks = Effect.map(tables, (table): Blocks => ({
  table: (name) => () => table(name),
  chain,
  converter: () => () => converter,
  deprecations: (how) => () => deprecations(how),
}))
