/** The state of a request while it is being handled: the request itself, and the results of the steps so far. */
import { Effect, Option } from "effect"
import type { Admission } from "../accounts/RequestAdmission.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { ApiVersionDeprecation, validateDeprecation } from "../contract/rules/Deprecation.ts"
import type { ResponseLink } from "../contract/rules/LinkHeader.ts"
import { announceDeprecations, EndpointDirectory, listDeprecations } from "./UnroutedResponses.ts"

type Headers = Readonly<Record<string, string>>

/** Headers and links that announce a path's deprecations in every response from it. */
interface PathAnnouncements {
  readonly headers: Headers
  readonly links: ReadonlyArray<ResponseLink>
}

/**
 * The state of one request, filled in by successive steps. This is a class rather than an object literal. V8 would
 * notice that an object literal lives as long as its request, and would allocate it directly in the old generation.
 * There, the object would keep the request and its connection in memory until the next full garbage collection.
 */
export class RequestInProgress {
  /**
   * The request. If its query has `as_of=now`, a step replaces it with a request that has an exact timestamp instead.
   */
  request: ApiRequest
  /** The path as declared in the contract. Undefined if the path does not belong to an endpoint. */
  readonly route: string | undefined
  /** Whether the path requires a key. */
  readonly needsKey: boolean
  /** The account that sent the request. Undefined until a key has been accepted. */
  account: typeof CurrentAccount.Service | undefined = undefined
  /** Whether the request is recorded in usage (D29). */
  isRecorded = false
  /** Price of the response in microdollars per gigabyte. */
  price = 0
  /**
   * Headers that are added to every response to this request, including errors, such as rate limit headers. Names are
   * in lower case.
   */
  headers: Headers
  /**
   * Links that are added to every response to this request. They lead to the successor endpoint and to the
   * documentation (§9.4, lifecycle).
   */
  readonly links: ReadonlyArray<ResponseLink>

  constructor(request: ApiRequest, route: string | undefined, needsKey: boolean, announced: PathAnnouncements) {
    this.request = request
    this.route = route
    this.needsKey = needsKey
    this.headers = announced.headers
    this.links = announced.links
  }

  /** Stores the result of the admission check, whether the request was admitted or refused. */
  admit({ account, headers, isRecorded, price }: Admission) {
    this.account = account
    this.isRecorded = isRecorded
    this.price = price
    this.headers = { ...this.headers, ...headers }
  }

  /** Adds a header to every response to this request. `name` is in lower case. */
  addHeader(name: string, value: string) {
    this.headers = { ...this.headers, [name]: value }
  }
}

/**
 * Builds two functions that create the state of a request: `beginAtRoute` for paths in the contract and the MCP server,
 * and `beginUnrouted` for all other paths. The deprecation headers and links are cached by route, but not for other
 * paths: clients can send any number of unknown paths, which would fill the memory.
 */
export const makeRequestFactory = Effect.gen(function* () {
  const directory = yield* EndpointDirectory
  const versionDeprecation = Option.map(yield* ApiVersionDeprecation, validateDeprecation)
  const announce = (path: string) => announceDeprecations(listDeprecations(directory, path, versionDeprecation))
  const announcements = new Map<string, PathAnnouncements>()

  const beginAtRoute = (request: ApiRequest, route: string, needsKey: boolean) => {
    const cached = announcements.get(route)
    const announced = cached ?? announce(route)
    if (cached === undefined) announcements.set(route, announced)
    return new RequestInProgress(request, route, needsKey, announced)
  }
  const beginUnrouted = (request: ApiRequest, path: string) =>
    new RequestInProgress(request, undefined, false, announce(path))
  return { beginAtRoute, beginUnrouted }
})
