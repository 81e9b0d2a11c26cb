/** Registers the tools and guides that the MCP server offers. */
import { Effect, Layer } from "effect"
import { McpServer, Toolkit } from "effect/ai"
import { canAccountUseEndpoint, type CurrentAccount } from "../../contract/Authentication.ts"
import { readGuides } from "../Guides.ts"
import { getQueryableEndpoints } from "./EndpointDetails.ts"
import { makeEstimateToolHandler, mcpEstimateTool } from "./EstimateTool.ts"
import { makeFindEndpointToolHandler, mcpFindEndpointTool } from "./FindEndpointTool.ts"
import { makeLineageToolHandler, mcpLineageTool, tickerChangesEndpointPath } from "./LineageTool.ts"
import { McpRequestContext } from "./McpRequestContext.ts"
import { makeQueryToolHandler, mcpQueryTool } from "./QueryTool.ts"

const tools = Toolkit.make(mcpFindEndpointTool, mcpQueryTool, mcpLineageTool, mcpEstimateTool)

type Account = typeof CurrentAccount.Service

/** Returns whether the account may use at least one of the endpoints with these paths. */
const canUse = (account: Account, paths: ReadonlyArray<string>) =>
  getQueryableEndpoints().some(({ path, tier }) =>
    paths.includes(path) && canAccountUseEndpoint(account, { path, required_tier: tier })
  )

const canUseAny = (account: Account) => canUse(account, getQueryableEndpoints().map(({ path }) => path))

/**
 * For each tool whose visibility depends on the account: whether to offer it to the account. The others are visible to
 * all accounts.
 */
const isOffered: Readonly<Record<string, (account: Account) => boolean>> = {
  [mcpQueryTool.name]: canUseAny,
  [mcpLineageTool.name]: (account) => canUse(account, [tickerChangesEndpointPath]),
  [mcpEstimateTool.name]: canUseAny,
}

const offered = McpServer.visibility(({ target }) =>
  Effect.map(McpRequestContext, ({ account }) => isOffered[target]?.(account) ?? true)
)

const handlers = tools.toLayer(
  Effect.all({
    find_endpoint: makeFindEndpointToolHandler,
    query: makeQueryToolHandler,
    lineage: makeLineageToolHandler,
    estimate: makeEstimateToolHandler,
  }),
)

/** Offers every guide of the documentation as a Markdown resource, such as `tickerline://guides/lineage`. */
const guides = Layer.unwrap(Effect.map(readGuides, (all) =>
  Layer.mergeAll(
    // `mergeAll` requires at least one layer, which an array of unknown length does not guarantee.
    Layer.empty,
    ...all.map(({ name, source, title }) =>
      McpServer.resource({
        uri: `tickerline://guides/${name}`,
        name,
        description: title,
        mimeType: "text/markdown",
        content: Effect.succeed({
          contents: [{ uri: `tickerline://guides/${name}`, mimeType: "text/markdown", text: source }],
        }),
      })
    ),
  )))

/** Registers all tools and guides. */
export const mcpRegistrationsLayer = Layer.merge(
  McpServer.toolkit(tools).pipe(Layer.provide(offered.layer), Layer.provide(handlers)),
  guides,
)
