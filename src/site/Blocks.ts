/** Fenced blocks that are more than text: what the code knows is told from there, so that no guide repeats it. */
import { Effect } from "effect"
import { renderLineageBlock } from "./blocks/Chain.ts"
import { timestampConverter } from "./blocks/Converter.ts"
import { renderDeprecations } from "./blocks/Deprecations.ts"
import { makeReferenceTables } from "./blocks/Tables.ts"
import type { GuideBlocks } from "./Markdown.ts"

export const makeGuideBlocks = Effect.map(makeReferenceTables, (table): GuideBlocks => ({
  table: (name) => () => table(name),
  chain: renderLineageBlock,
  converter: () => () => timestampConverter,
  deprecations: (how) => () => renderDeprecations(how),
}))
