/** Makes requests for tests that call a step of the request pipeline directly. */
import { Effect } from "effect"
import type { ApiRequest } from "../../src/rules/ApiRequest.ts"

/** Makes a GET request over HTTP. Omitted facts get default values. */
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
  purpose: "answer",
  via: null,
  readBody: () => Effect.succeed(""),
  disconnect: () => {},
  ...more,
})
