/** §2.5, D25: every endpoint there is, read from the one declaration that also serves it. */
import { Context, Option } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { Billing } from "../accounts/Authorization.ts"
import { Authentication } from "../accounts/keys/Authentication.ts"
import { Api } from "../Api.ts"
import { RequiredTier } from "../rules/EndpointAnnotations.ts"
import * as Lifecycle from "../rules/Lifecycle.ts"
import { findNearestName, formatSuggestion } from "../rules/Suggestions.ts"
import { ResultUnit } from "../rules/Paging.ts"
import type { EndpointRow } from "./Api.ts"

export interface CatalogueEndpoint {
  readonly row: typeof EndpointRow.Type
  readonly deprecation: Option.Option<Lifecycle.Deprecation>
  /** Its data have a price (D27). */
  readonly isPriced: boolean
  /** What its results are counted in (D28). */
  readonly unit: typeof ResultUnit.Service
}

/** A page for people; it is not part of the contract that clients are generated from. */
const documentationPage: CatalogueEndpoint = {
  row: {
    path: Lifecycle.documentationPath,
    label: "Documentation",
    description: "The API reference, a page for people that can try requests.",
    tier: null,
    deprecated: false,
    sunset: null,
    successor: null,
  },
  deprecation: Option.none(),
  isPriced: false,
  unit: "row",
}

const declared = (): ReadonlyArray<CatalogueEndpoint> => {
  const found: Array<CatalogueEndpoint> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations, middleware }) => {
      const life = Lifecycle.getDeprecation(endpoint.annotations)
      const demands = new Set(Array.from(middleware, ({ key }) => key))
      const summary = Context.getOrUndefined(mergedAnnotations, OpenApi.Summary) ?? endpoint.identifier
      found.push({
        row: {
          path: endpoint.path,
          label: Option.isSome(life) ? `DEPRECATED ${summary}` : summary,
          description: Context.getOrUndefined(endpoint.annotations, OpenApi.Description) ?? "",
          tier: demands.has(Authentication.key) ? Context.get(mergedAnnotations, RequiredTier) : null,
          deprecated: Option.isSome(life),
          sunset: Option.getOrNull(Option.flatMapNullishOr(life, ({ sunset }) => sunset)),
          successor: Option.getOrNull(Option.map(life, ({ successor }) => successor)),
        },
        deprecation: life,
        isPriced: demands.has(Billing.key),
        unit: Context.get(mergedAnnotations, ResultUnit),
      })
    },
  })
  return found
}

export const endpoints: ReadonlyArray<CatalogueEndpoint> = [...declared(), documentationPage]

/** The paths whose data have a price. */
export const pricedPaths = endpoints.filter(({ isPriced: charged }) => charged).map(({ row }) => row.path)

/** The endpoint at a path, whatever the method. */
export const findEndpoint = (path: string): Option.Option<CatalogueEndpoint> => {
  const sought = path.length > 1 ? path.replace(/\/$/, "") : path
  return Option.fromUndefinedOr(endpoints.find(({ row }) => row.path === sought))
}

/** A path without its version and query: `/v1/news`, `/v2/news?limit=1`, `/api/v1/news` and `/news` are all `news`. */
const nameOf = (path: string) =>
  path.slice(0, 100).trim().replace(/[?#].*/s, "").replace(/^\/?(?:(?:api|enterprise)\/)?(?:v\d+\/)?/, "")

const paths = new Map(endpoints.map(({ row }) => [nameOf(row.path), row.path]))
const names = Array.from(paths.keys())

/** The endpoint that is probably meant by an unknown path: a misspelt one, one of another version, or one below it. */
const suggest = (path: string): Option.Option<string> => {
  const name = nameOf(path)
  return findNearestName(name, names).pipe(
    Option.orElse(() => Option.fromUndefinedOr(names.find((known) => name.startsWith(`${known}/`)))),
    Option.flatMapNullishOr((known) => paths.get(known)),
  )
}

export const suggestEndpoint = (path: string) => formatSuggestion(suggest(path))
