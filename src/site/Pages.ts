/** Every page, in the order of the navigation. */
import { Effect } from "effect"
import * as Changelog from "./ChangelogPage.ts"
import { renderGuides } from "./Guides.ts"
import type { Page } from "./Page.ts"
import { renderReference } from "./ReferencePages.ts"
import { toolPages } from "./ToolPages.ts"

export const renderPages = Effect.gen(function* () {
  const all: ReadonlyArray<Page> = [
    ...(yield* renderGuides),
    ...toolPages,
    Changelog.changelogPage,
    ...(yield* renderReference),
  ]
  return all
})
