/** Every page, in the order of the navigation. */
import { Effect } from "effect"
import * as Docs from "../catalogue/Docs.ts"
import * as Changelog from "./Changelog.ts"
import { guides } from "./Guides.ts"
import type { Page } from "./Page.ts"
import { tools } from "./Tools.ts"

/** A page that is made somewhere else, in the navigation as the others are. */
const reference = { path: Docs.path, title: "API reference", section: "Reference" } as const

export const pages = Effect.map(guides, (guides) => {
  const all: ReadonlyArray<Page> = [...guides, ...tools, Changelog.page]
  return { all, navigation: [...all, reference] }
})
