/** Lists all endpoints, derived from the contract `Api` (§2.5, fields; D25, /endpoints). */
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
import { findNearestName, formatSuggestion } from "../../contract/rules/NameSuggestions.ts"
import { ResultUnit } from "../../contract/rules/Paging.ts"
import type { CatalogueEndpointRow } from "../../contract/endpoints/catalogue.ts"

/**
 * An endpoint: its row in the response of `GET /endpoints`, and other properties derived from its declaration in the
 * contract.
 */
export interface CatalogueEndpoint {
  /** The endpoint's name. Unlike `row.label`, it is not marked as deprecated. */
  readonly title: string
  readonly row: typeof CatalogueEndpointRow.Type
  readonly deprecation: Option.Option<Deprecation>
  /** Whether responses are charged (D27, prices). */
  readonly isPriced: boolean
  /** Whether the endpoint responds with an endless stream. */
  readonly isEndless: boolean
  /** The unit in which an estimate counts results, such as rows (D28, estimates). */
  readonly unit: typeof ResultUnit.Service
  /** The database tables that the endpoint reads. */
  readonly tables: ReadonlyArray<string>
  /** The endpoint's columns that contain text from third parties, such as news titles. */
  readonly thirdPartyText: ReadonlyArray<string>
  /** All annotations of the endpoint and its group. */
  readonly annotations: Context.Context<never>
  /** The schema of the query parameters. Undefined if the endpoint has none. */
  readonly query: Schema.Top | undefined
}

/** The documentation. It is listed by `GET /endpoints`, but is not part of the contract or the OpenAPI document. */
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

/**
 * Lists the endpoints declared in the contract, in its order. The middleware of an endpoint shows how it is used:
 * authentication means that it requires a key, so that it has a tier, and billing means that it costs money.
 */
const listDeclaredEndpoints = (): ReadonlyArray<CatalogueEndpoint> => {
  const endpoints: Array<CatalogueEndpoint> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations, middleware }) => {
      const deprecation = getEndpointDeprecation(endpoint.annotations)
      const middlewareKeys = new Set(Array.from(middleware, ({ key }) => key))
      const summary = Context.getOrUndefined(mergedAnnotations, OpenApi.Summary) ?? endpoint.identifier
      endpoints.push({
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
  return endpoints
}

/** The endpoints declared in the contract. */
export const declaredEndpoints = listDeclaredEndpoints()

/** Everything listed by `GET /endpoints`: the endpoints in the contract, and the documentation. */
export const catalogueEndpoints: ReadonlyArray<CatalogueEndpoint> = [...declaredEndpoints, documentationPage]

/** Paths of the endpoints whose responses are charged (D27). */
export const pricedEndpointPaths = catalogueEndpoints.filter(({ isPriced }) => isPriced).map(({ row }) => row.path)

/** Finds the endpoint at a path, ignoring a trailing slash. */
export const findEndpoint = (path: string): Option.Option<CatalogueEndpoint> => {
  const normalized = path.length > 1 ? path.replace(/\/$/, "") : path
  return Option.fromUndefinedOr(catalogueEndpoints.find(({ row }) => row.path === normalized))
}

/**
 * Returns the part of a path that is compared to find similar endpoints. For example, `/v1/news`, `/v2/news?limit=1`,
 * `/api/v1/news` and `/news` all become `news`.
 */
const toName = (path: string) =>
  path.slice(0, 100).trim().replace(/[?#].*/s, "").replace(/^\/?(?:(?:api|enterprise)\/)?(?:v\d+\/)?/, "")

const pathsByName = new Map(catalogueEndpoints.map(({ row }) => [toName(row.path), row.path]))
const names = Array.from(pathsByName.keys())

/**
 * Returns the path of the endpoint that a client probably meant. The requested path may be misspelled, have a different
 * version, or extend an endpoint's path, such as `/v1/news/1`.
 */
const findSimilarPath = (path: string): Option.Option<string> => {
  const name = toName(path)
  return findNearestName(name, names).pipe(
    Option.orElse(() => Option.fromUndefinedOr(names.find((known) => name.startsWith(`${known}/`)))),
    Option.flatMapNullishOr((known) => pathsByName.get(known)),
  )
}

/** Returns a sentence such as ` Did you mean /v1/news?`, or an empty string if there is no similar path. */
export const formatEndpointSuggestion = (path: string) => formatSuggestion(findSimilarPath(path))

/** Paths of the endpoints to which a key can be restricted. */
export const keyEndpointPaths = catalogueEndpoints.filter(({ row }) => row.tier !== null).map(({ row }) => row.path)
