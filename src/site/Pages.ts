/** Every page, in the order of the navigation. */
import { Effect } from "effect"
import * as Changelog from "./Changelog.ts"
import { guides } from "./Guides.ts"
import type { Page } from "./Page.ts"
import { reference } from "./Reference.ts"
import { tools } from "./Tools.ts"

export const pages = Effect.gen(function* () {
  const all: ReadonlyArray<Page> = [...(yield* guides), ...tools, Changelog.page, ...(yield* reference)]
  return all
})
