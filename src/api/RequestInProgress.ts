/** The state of a request while its steps run: the request itself, and what the steps have found so far. */
import { Effect, Option } from "effect"
import type { Admission } from "../accounts/Admission.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { ApiVersionDeprecation, validateDeprecation } from "../contract/rules/Deprecation.ts"
import type { ResponseLink } from "../contract/rules/Links.ts"
import { announceDeprecations, EndpointDirectory, listDeprecations } from "./UnroutedResponses.ts"

type Headers = Readonly<Record<string, string>>

/** Headers and links that announce deprecations in every response from a path. */
interface PathAnnouncements {
  readonly headers: Headers
  readonly links: ReadonlyArray<ResponseLink>
}

/**
 * One object per request, which the steps fill in one after the other. It is a class rather than an object literal,
 * because V8 would notice that the literal lives as long as its request, and allocate it in the old generation. There,
 * it would keep the request and its connection in memory until the next full collection.
 */
export class RequestInProgress {
  /** The request. If it has `as_of=now`, a step replaces it with the same request for that exact moment. */
  request: ApiRequest
  /** The path as declared in the contract; undefined if no endpoint has the path. */
  readonly route: string | undefined
  /** Whether the path requires a key. */
  readonly needsKey: boolean
  account: typeof CurrentAccount.Service | undefined = undefined
  /** Whether usage lists the request (D29). */
  isRecorded = false
  /** Microdollars per gigabyte. */
  price = 0
  /** Headers for any response to the request, even an error, such as rate limits. The names are in lower case. */
  headers: Headers
  /** Links for any response to the request: to the successor and the documentation (§9.4, lifecycle). */
  readonly links: ReadonlyArray<ResponseLink>

  constructor(request: ApiRequest, route: string | undefined, needsKey: boolean, announced: PathAnnouncements) {
    this.request = request
    this.route = route
    this.needsKey = needsKey
    this.headers = announced.headers
    this.links = announced.links
  }

  admit({ account, headers, isRecorded, price }: Admission) {
    this.account = account
    this.isRecorded = isRecorded
    this.price = price
    this.headers = { ...this.headers, ...headers }
  }

  addHeader(name: string, value: string) {
    this.headers = { ...this.headers, [name]: value }
  }
}

/** Creates two functions that begin a request: one for paths of the contract, and one for all other paths. */
export const makeBeginRequest = Effect.gen(function* () {
  const directory = yield* EndpointDirectory
  const versionDeprecation = Option.map(yield* ApiVersionDeprecation, validateDeprecation)
  const announce = (path: string) => announceDeprecations(listDeprecations(directory, path, versionDeprecation))
  const announcements = new Map<string, PathAnnouncements>()

  const beginAtRoute = (request: ApiRequest, route: string, needsKey: boolean) => {
    let announced = announcements.get(route)
    if (announced === undefined) announcements.set(route, announced = announce(route))
    return new RequestInProgress(request, route, needsKey, announced)
  }
  const beginElsewhere = (request: ApiRequest, path: string) =>
    new RequestInProgress(request, undefined, false, announce(path))
  return { beginAtRoute, beginElsewhere }
})
