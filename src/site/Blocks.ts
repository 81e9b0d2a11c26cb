/** Fenced blocks that are more than text: what the code knows is told from there, so that no guide repeats it. */
import type { Blocks } from "./Markdown.ts"

export const blocks: Blocks = {}
