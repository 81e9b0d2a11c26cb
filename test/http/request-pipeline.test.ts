/** The request pipeline must serve exactly the endpoints of the contract outside `PublicApi`. */
import { assert, describe, it } from "@effect/vitest"
import { HttpApi } from "effect/http-api"
import { Api, PublicApi } from "../../src/Api.ts"
import { makePipelineEndpoint, matchEndpointsWithContract } from "../../src/http/RequestPipeline.ts"
import { NoParameters } from "../../src/rules/Filters.ts"
import { InternalError } from "../../src/rules/Errors.ts"

const makeEndpoint = (path: string) =>
  makePipelineEndpoint({ path }, NoParameters, () => new InternalError({ error: { message: "not called" } }))

/** Returns the paths, without `/v1`, of the endpoints that the pipeline serves instead of the router. */
const listPaths = () => {
  const paths: Array<string> = []
  HttpApi.reflect(Api, {
    predicate: ({ group }) => !(group.identifier in PublicApi.groups),
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => paths.push(endpoint.path.slice("/v1".length)),
  })
  return paths
}

describe("The service", () => {
  it("starts if each endpoint of the contract is served (§4, D30)", () => {
    const paths = listPaths()
    assert.includeMembers(paths, ["/news", "/usage/daily", "/account"])
    const matched = matchEndpointsWithContract(paths.map(makeEndpoint))
    assert.deepStrictEqual(matched.map(({ declared }) => declared.endpoint.path), paths.map((path) => `/v1${path}`))
    for (const { declared, endpoint } of matched) assert.strictEqual(`/v1${endpoint.path}`, declared.endpoint.path)
  })

  it("does not start if nothing serves an endpoint of the contract (§4, D30)", () => {
    const served = listPaths().filter((path) => path !== "/news").map(makeEndpoint)
    assert.throws(() => matchEndpointsWithContract(served), "Nothing serves the endpoint /v1/news")
  })

  it("does not start if it serves an endpoint that the contract lacks (§4, D30)", () => {
    const served = [...listPaths(), "/undeclared"].map(makeEndpoint)
    assert.throws(() => matchEndpointsWithContract(served), "The contract has no endpoint /v1/undeclared")
  })
})
