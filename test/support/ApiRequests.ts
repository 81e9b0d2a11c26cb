/** Builds requests and responses for tests that call a step of the request pipeline directly. */
import { Effect } from "effect"
import type { AdmittedRequest } from "../../src/query/EndpointHandler.ts"
import { RequestInProgress } from "../../src/api/RequestInProgress.ts"
import type { FinishedResponse } from "../../src/contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../../src/contract/rules/ApiRequest.ts"

/** Builds a GET request over HTTP. Omitted fields have default values. */
export const makeApiRequest = (more: Partial<ApiRequest> = {}): ApiRequest => ({
  id: "request",
  method: "GET",
  target: "/",
  headers: { host: "localhost" },
  rawHeaders: ["Host", "localhost"],
  httpVersion: "1.1",
  address: "127.0.0.1",
  peerAddress: "127.0.0.1",
  startedAt: 0,
  arrivedAt: 0,
  purpose: "response",
  via: null,
  client: { readBody: () => Effect.succeed(""), disconnect: () => {}, hasDisconnected: () => false },
  ...more,
})

/** Builds a request to an endpoint before its account has been identified. */
export const makeRequestInProgress = (more: Partial<ApiRequest> = {}) => {
  const request = makeApiRequest(more)
  return new RequestInProgress(request, request.target, true, { headers: {}, links: [] })
}

const notServed = new Error("This request does not run in a pipeline.")

/**
 * Builds a request from an account without restrictions. This request can neither open a stream nor run further
 * requests.
 */
export const makeAdmittedRequest = (more: Partial<ApiRequest> = {}): AdmittedRequest => {
  const request = makeApiRequest(more)
  return {
    request,
    now: request.startedAt,
    account: {
      account_id: 1,
      tier: "ultimate",
      spendable_microdollars: null,
      is_limited_by_budget: false,
      key_id: 1,
      endpoints: null,
      networks: null,
    },
    route: request.target,
    past: undefined,
    scope: () => {
      throw notServed
    },
    makeStreamUsageRecorder: () => {
      throw notServed
    },
    run: () => Effect.die(notServed),
  }
}

/** Builds a response with the status 200. Omitted fields have default values. */
export const makeFinishedResponse = (more: Partial<FinishedResponse> = {}): FinishedResponse => ({
  status: 200,
  headers: {},
  body: undefined,
  trailers: undefined,
  isEndless: false,
  records: 0,
  bytes: 0,
  cost: 0,
  price: 0,
  total: undefined,
  isCached: false,
  ...more,
})
