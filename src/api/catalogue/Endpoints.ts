/** All endpoints, derived from the contract `Api`: §2.5 (fields), D25 (/endpoints). */
import { Context, Option, type Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { BillingMiddleware } from "../../contract/Authorization.ts"
import { AuthenticationMiddleware } from "../../contract/Authentication.ts"
import { Api } from "../../contract/Api.ts"
import {
  IsEndlessStream,
  RequiredTier,
  TablesReadByEndpoint,
  ThirdPartyTextColumns,
} from "../../contract/rules/EndpointAnnotations.ts"
import { type Deprecation, documentationPath, getEndpointDeprecation } from "../../contract/rules/Deprecation.ts"
import { findNearestName, formatSuggestion } from "../../contract/rules/Suggestions.ts"
import { ResultUnit } from "../../contract/rules/Paging.ts"
import type { CatalogueEndpointRow } from "../../contract/endpoints/catalogue.ts"

/** An endpoint: its row in `GET /endpoints`, and what else the service derives from its declaration. */
export interface CatalogueEndpoint {
  /** The name of the endpoint. Unlike `row.label`, it does not say that the endpoint is deprecated. */
  readonly title: string
  readonly row: typeof CatalogueEndpointRow.Type
  readonly deprecation: Option.Option<Deprecation>
  /** Whether responses cost money: D27 (prices). */
  readonly isPriced: boolean
  /** Whether the endpoint responds with an endless stream. */
  readonly isEndless: boolean
  /** The unit in which the results are counted: D28 (estimates). */
  readonly unit: typeof ResultUnit.Service
  /** The tables that the endpoint reads. */
  readonly tables: ReadonlyArray<string>
  /** The columns whose text comes from third parties, such as news titles. */
  readonly thirdPartyText: ReadonlyArray<string>
  readonly annotations: Context.Context<never>
  readonly query: Schema.Top | undefined
}

/** The documentation, which is part of the catalogue, but not of the contract or the OpenAPI document. */
const documentationPage: CatalogueEndpoint = {
  title: "Documentation",
  row: {
    path: documentationPath,
    label: "Documentation",
    description: "The API reference as web pages, with forms that send requests.",
    tier: null,
    deprecated: false,
    sunset: null,
    successor: null,
  },
  deprecation: Option.none(),
  isPriced: false,
  isEndless: false,
  unit: "row",
  tables: [],
  thirdPartyText: [],
  annotations: Context.empty(),
  query: undefined,
}

const listDeclaredEndpoints = (): ReadonlyArray<CatalogueEndpoint> => {
  const found: Array<CatalogueEndpoint> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations, middleware }) => {
      const deprecation = getEndpointDeprecation(endpoint.annotations)
      const middlewareKeys = new Set(Array.from(middleware, ({ key }) => key))
      const summary = Context.getOrUndefined(mergedAnnotations, OpenApi.Summary) ?? endpoint.identifier
      found.push({
        title: summary,
        row: {
          path: endpoint.path,
          label: Option.isSome(deprecation) ? `DEPRECATED ${summary}` : summary,
          description: Context.getOrUndefined(endpoint.annotations, OpenApi.Description) ?? "",
          tier: middlewareKeys.has(AuthenticationMiddleware.key) ? Context.get(mergedAnnotations, RequiredTier) : null,
          deprecated: Option.isSome(deprecation),
          sunset: Option.getOrNull(Option.flatMapNullishOr(deprecation, ({ sunset }) => sunset)),
          successor: Option.getOrNull(Option.map(deprecation, ({ successor }) => successor)),
        },
        deprecation,
        isPriced: middlewareKeys.has(BillingMiddleware.key),
        isEndless: Context.get(mergedAnnotations, IsEndlessStream),
        unit: Context.get(mergedAnnotations, ResultUnit),
        tables: Context.get(mergedAnnotations, TablesReadByEndpoint),
        thirdPartyText: Context.get(mergedAnnotations, ThirdPartyTextColumns),
        annotations: mergedAnnotations,
        query: endpoint.query,
      })
    },
  })
  return found
}

/** The endpoints that the contract declares. */
export const declaredEndpoints = listDeclaredEndpoints()

/** Everything that `GET /endpoints` lists: the endpoints of the contract, and the documentation. */
export const catalogueEndpoints: ReadonlyArray<CatalogueEndpoint> = [...declaredEndpoints, documentationPage]

/** The paths of the endpoints whose responses cost money (D27). */
export const pricedEndpointPaths = catalogueEndpoints.filter(({ isPriced }) => isPriced).map(({ row }) => row.path)

/** Finds the endpoint at a path, with or without a trailing slash. */
export const findEndpoint = (path: string): Option.Option<CatalogueEndpoint> => {
  const normalized = path.length > 1 ? path.replace(/\/$/, "") : path
  return Option.fromUndefinedOr(catalogueEndpoints.find(({ row }) => row.path === normalized))
}

/** Returns the name to compare: `/v1/news`, `/v2/news?limit=1`, `/api/v1/news` and `/news` all become `news`. */
const toName = (path: string) =>
  path.slice(0, 100).trim().replace(/[?#].*/s, "").replace(/^\/?(?:(?:api|enterprise)\/)?(?:v\d+\/)?/, "")

const paths = new Map(catalogueEndpoints.map(({ row }) => [toName(row.path), row.path]))
const names = Array.from(paths.keys())

/**
 * Returns the path of the endpoint that a client probably meant. The requested path may be misspelled, have another
 * version, or continue the path of an endpoint, such as `/v1/news/1`.
 */
const findSimilarPath = (path: string): Option.Option<string> => {
  const name = toName(path)
  return findNearestName(name, names).pipe(
    Option.orElse(() => Option.fromUndefinedOr(names.find((known) => name.startsWith(`${known}/`)))),
    Option.flatMapNullishOr((known) => paths.get(known)),
  )
}

/** Returns a sentence such as ` Did you mean /v1/news?`, or an empty string if no path is similar. */
export const formatEndpointSuggestion = (path: string) => formatSuggestion(findSimilarPath(path))

/** The endpoints to which a key can be limited. */
export const keyEndpointPaths = catalogueEndpoints.filter(({ row }) => row.tier !== null).map(({ row }) => row.path)
