/** A request, and what its steps have found so far. */
import { Effect, Option } from "effect"
import type { Admission } from "../accounts/Admission.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { ApiVersionDeprecation, validateDeprecation } from "../contract/rules/Deprecation.ts"
import type { ResponseLink } from "../contract/rules/Links.ts"
import { announceDeprecations, EndpointDirectory, listDeprecations } from "./UnroutedResponses.ts"

type Headers = Readonly<Record<string, string>>

/** Headers and links that announce deprecations in every response of a path. */
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
  /** `as_of=now` replaces it by the request of the moment that it stands for. */
  request: ApiRequest
  /** The declared path; undefined for a path that is no endpoint's. */
  readonly route: string | undefined
  /** Whether the path answers only to accounts. */
  readonly needsKey: boolean
  account: typeof CurrentAccount.Service | undefined = undefined
  /** Whether usage lists the request (D29). */
  isRecorded = false
  /** Microdollars per gigabyte. */
  price = 0
  /** Headers of every response to the request, such as rate limits, by lower-case name. */
  headers: Headers
  /** Links of every response to the request: successor and documentation (§9.4, lifecycle). */
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

/** Makes the functions that begin a request: to a declared path, or to any other. */
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
