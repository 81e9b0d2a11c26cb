/**
 * Serves a small API with the service's own request pipeline, to test rules that no single endpoint of the
 * service demonstrates.
 *
 * ```ts
 * const Small = HttpApi.make("small").add(group)
 * layer(serveApi(Small, handlers))("An endpoint of a small API", (it) => {
 *   it.effect("requires a key (D2)", () =>
 *     Effect.gen(function* () {
 *       assert.strictEqual((yield* requestJson("/v1/thing", { key: null })).status, 401)
 *     }))
 * })
 * ```
 */
import { Effect, Layer, Logger, Option } from "effect"
import { HttpApi, type HttpApiGroup } from "effect/http-api"
import { PrepaidBalances } from "../../src/accounts/billing/PrepaidBalances.ts"
import { UsageMetering } from "../../src/accounts/billing/UsageMetering.ts"
import { Authenticator } from "../../src/accounts/keys/Authenticator.ts"
import { KeyWatcher } from "../../src/accounts/keys/KeyWatcher.ts"
import { AccountRateLimiter } from "../../src/accounts/limits/AccountRateLimiter.ts"
import { priceListLayer } from "../../src/api/catalogue/PriceList.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { ReadRouter } from "../../src/postgres/replicas/ReadRouter.ts"
import { PastReader } from "../../src/query/history/PastReader.ts"
import { CacheMemory } from "../../src/query/lists/CacheMemory.ts"
import { NodeListener } from "../../src/api/NodeListener.ts"
import { DocumentationPages, McpEndpoint } from "../../src/api/SiteRoutes.ts"
import { RequestPipeline } from "../../src/api/RequestPipeline.ts"
import type { EndpointHandlers } from "../../src/api/Routes.ts"
import { EndpointDirectory } from "../../src/api/UnroutedResponses.ts"
import { DatasetVersions } from "../../src/postgres/versions/DatasetVersions.ts"
import { RequestMetrics } from "../../src/postgres/metrics/RequestMetrics.ts"
import { type Deprecation, getEndpointDeprecation } from "../../src/contract/rules/Deprecation.ts"
import { httpServerLayer, listenerLayer } from "./Service.ts"
import { databaseWithKeysLayer } from "./ServiceInstances.ts"

/** Disables the documentation and the MCP server. */
const otherRoutes = Layer.merge(
  Layer.succeed(DocumentationPages, { routes: [], paths: new Set<string>() }),
  Layer.succeed(McpEndpoint, {
    respondToNonMessage: () => undefined,
    respond: () => Effect.die(new Error("A small API has no MCP server")),
  }),
)

const makeDirectory = <Groups extends HttpApiGroup.Constraint>(api: HttpApi.HttpApi<string, Groups>) => {
  const deprecations = new Map<string, Option.Option<Deprecation>>()
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { annotations, path } }) => {
      deprecations.set(path, getEndpointDeprecation(annotations))
    },
  })
  return Layer.succeed(EndpointDirectory, {
    find: (path) =>
      Option.map(Option.fromUndefinedOr(deprecations.get(path)), (deprecation) => ({ row: { path }, deprecation })),
    suggest: () => "",
  })
}

/** Serves the endpoints on a free port, with a separate database and an API key for each tier. */
export const serveApi = <Groups extends HttpApiGroup.Constraint, E, R>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: Effect.Effect<EndpointHandlers, E, R>,
) =>
  listenerLayer.pipe(
    Layer.provide(NodeListener.layer),
    Layer.provide(RequestPipeline.layer(api, handlers)),
    Layer.provide(Layer.merge(otherRoutes, makeDirectory(api))),
    Layer.provide(Layer.merge(Authenticator.layer, KeyWatcher.layer)),
    Layer.provide(Layer.mergeAll(AccountRateLimiter.layer, UsageMetering.layer, RequestMetrics.layer, priceListLayer)),
    Layer.provide(PrepaidBalances.layer),
    Layer.provide(Layer.merge(PastReader.layer, CacheMemory.layer)),
    Layer.provide(DatasetVersions.layer),
    Layer.provide(DatabaseReader.layer),
    Layer.provide(ReadRouter.layer),
    Layer.provide(Logger.layer([])),
    Layer.provideMerge(httpServerLayer),
    Layer.provideMerge(databaseWithKeysLayer),
  )
