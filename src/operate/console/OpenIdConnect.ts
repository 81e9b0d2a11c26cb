/**
 * Signs admins in with an OpenID Connect provider. An admin's groups determine the scope (docs/operations/console.md).
 */
import { Context, Data, Effect, Layer, Option, Redacted, Schema } from "effect"
import type * as Client from "openid-client"
import { isEmailAddress } from "../../contract/EmailAddress.ts"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { type AdminScope, adminScopes } from "../admin/AdminErrors.ts"
import {
  OidcClientIdConfig,
  OidcClientSecretConfig,
  OidcGroupsClaimConfig,
  OidcGroupsConfig,
  OidcIssuerConfig,
  OidcScopesConfig,
} from "../admin/AdminSettings.ts"
import { type IdentifiedAdmin, SignInRefused } from "../admin/AdminTokens.ts"

/** The provider is unreachable or sent an unexpected response. */
export class ProviderUnavailable extends Data.TaggedError("ProviderUnavailable")<{ readonly message: string }> {}

/** What the browser stores while the admin signs in at the provider. */
export const PendingSignIn = Schema.fromJsonString(Schema.Struct({
  state: Schema.String,
  nonce: Schema.String,
  verifier: Schema.String,
  /** The path of the page that the admin requested. */
  to: Schema.String,
}))
/** What the browser stores while the admin signs in at the provider. */
export type PendingSignIn = typeof PendingSignIn.Type

interface Provider {
  readonly issuer: URL
  readonly clientId: string
  readonly clientSecret: Option.Option<Redacted.Redacted>
  readonly groups: ReadonlyMap<string, AdminScope>
  readonly groupsClaim: string
  readonly scopes: string
}

const timeoutSeconds = 10

/** Loads the client library at the first sign-in, so that it does not slow down the start of the service. */
const loadClient = Effect.promise(() => import("openid-client"))

const maxResponseBytes = 1_048_576

/** Sends a request to the provider. Fails if the response is larger than 1 MiB. */
const fetchBounded: Client.CustomFetch = async (url, { body: sent = null, ...options }) => {
  const content = sent instanceof Uint8Array ? Buffer.from(sent) : sent
  const { body, headers, status } = await globalThis.fetch(url, { ...options, body: content })
  const chunks: Array<Uint8Array> = []
  let length = 0
  for await (const chunk of body ?? []) {
    length += chunk.length
    if (length > maxResponseBytes) throw new Error("a response of the provider is larger than 1 MiB")
    chunks.push(chunk)
  }
  return new Response(body === null ? null : Buffer.concat(chunks), { status, headers })
}

/**
 * Chooses how to send the client secret. Providers accept it in a header, in the request body, or both. If the provider
 * does not state which, the header is used.
 */
const authenticate =
  (client: typeof Client, secret: string): Client.ClientAuth => (server, metadata, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]
    const method = methods.includes("client_secret_basic") ? client.ClientSecretBasic : client.ClientSecretPost
    return method(secret)(server, metadata, body, headers)
  }

const describeCause = (cause: unknown): string =>
  cause instanceof Error
    ? cause.cause === undefined || cause.message === describeCause(cause.cause)
      ? cause.message
      : `${cause.message}: ${describeCause(cause.cause)}`
    : "unknown"

class ProviderFailure extends Data.TaggedError("ProviderFailure")<{ readonly cause: unknown }> {}

const withProvider = <A>(issuer: URL, run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (cause) => new ProviderFailure({ cause }) }).pipe(
    Effect.tapError(({ cause }) => Effect.logWarning(`Sign-in with ${issuer.href} failed: ${describeCause(cause)}`)),
  )

const makeUnavailable = () =>
  new ProviderUnavailable({
    message: "The identity provider cannot be reached, or does not answer as it should; the log of the service says " +
      "why. Try again later, or sign in with an admin token.",
  })

const reject = ({ issuer }: Provider, reason: string) =>
  Effect.andThen(
    Effect.logWarning(`Sign-in with ${issuer.href} failed: ${reason}.`),
    Effect.fail(makeUnavailable()),
  )

/**
 * Reads the provider's metadata. This happens at each sign-in, so that changes to the provider's keys and URLs take
 * effect without a restart.
 */
const discover = Effect.fnUntraced(function* (client: typeof Client, { clientId, clientSecret, issuer }: Provider) {
  return yield* withProvider(issuer, () =>
    client.discovery(
      issuer,
      clientId,
      undefined,
      Option.match(clientSecret, {
        onNone: () => client.None(),
        onSome: (secret) => authenticate(client, Redacted.value(secret)),
      }),
      {
        [client.customFetch]: fetchBounded,
        timeout: timeoutSeconds,
        // Verifies the signatures of ID tokens. In this flow, the specification would also permit relying on TLS alone.
        execute: [
          client.enableNonRepudiationChecks,
          ...(issuer.protocol === "http:" ? [client.allowInsecureRequests] : []),
        ],
      },
    )).pipe(Effect.mapError(makeUnavailable))
})

const isTextList = Schema.is(Schema.Array(Schema.String))

/** Returns the groups listed in a claim. Some providers send a single group as a string instead of an array. */
const toGroups = (claim: unknown) => isTextList(claim) ? claim : typeof claim === "string" ? [claim] : []

const isName = Schema.is(TrimmedName)

/**
 * Returns the name to record in the audit log: the person's email address if the provider has verified it, otherwise
 * the subject identifier (`sub`).
 */
const findName = ({ email, email_verified, sub }: Readonly<Record<string, unknown>>) => {
  const isVerified = email_verified === true || email_verified === "true"
  return [isVerified && typeof email === "string" && isEmailAddress(email) ? email : undefined, sub].find(isName)
}

/** Returns the highest scope that any of the groups grants, or undefined if none of them grants a scope. */
const findScope = (groups: ReadonlyArray<string>, scopes: ReadonlyMap<string, AdminScope>) =>
  adminScopes.findLast((scope) => groups.some((group) => scopes.get(group) === scope))

/**
 * Exchanges the code in the URL for tokens, after checking the URL and the ID token against the values that the browser
 * has stored. Fails with `SignInRefused` if the provider or the check denies the sign-in, and with
 * `ProviderUnavailable` for any other reason.
 */
const requestTokens = (
  client: typeof Client,
  config: Client.Configuration,
  { issuer }: Provider,
  url: URL,
  pending: PendingSignIn,
) =>
  withProvider(issuer, () =>
    client.authorizationCodeGrant(config, url, {
      expectedState: pending.state,
      expectedNonce: pending.nonce,
      pkceCodeVerifier: pending.verifier,
      idTokenExpected: true,
    })).pipe(
      Effect.mapError(({ cause }) =>
        cause instanceof client.AuthorizationResponseError || cause instanceof client.ResponseBodyError ||
          (cause instanceof client.ClientError && cause.code === "OAUTH_INVALID_RESPONSE")
          ? new SignInRefused({ message: "The identity provider did not confirm who you are. Sign in again." })
          : makeUnavailable()
      ),
    )

/**
 * Returns the admin that verified claims identify: the name, and the highest scope of the person's groups. Fails if the
 * claims contain no name, or if no group grants a scope.
 */
const toAdmin = Effect.fnUntraced(function* (
  provider: Provider,
  claims: Readonly<Record<string, unknown>>,
  subject: string,
) {
  const name = findName(claims)
  if (name === undefined) return yield* reject(provider, "the claim sub is not a name")
  const scope = findScope(toGroups(claims[provider.groupsClaim]), provider.groups)
  if (scope === undefined) {
    return yield* new SignInRefused({
      message: `${name} is in no group that may use the console. Ask for membership, then sign in again.`,
    })
  }
  // The session does not end with an admin token, because the person did not sign in with one (`opened_with`).
  const admin: IdentifiedAdmin = { name, scope, created_by: `OpenID Connect ${subject}`, opened_with: null }
  return admin
})

/** The two steps of a sign-in: the authorization code flow with PKCE, `state`, and `nonce`. */
const makeSignIn = (provider: Provider) => ({
  /**
   * Returns the provider's URL that the browser is sent to, and the values that the browser must store until it
   * returns.
   */
  begin: Effect.fnUntraced(function* (redirect_uri: string, to: string) {
    const client = yield* loadClient
    const config = yield* discover(client, provider)
    const pending: PendingSignIn = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
      to,
    }
    const code_challenge = yield* Effect.promise(() => client.calculatePKCECodeChallenge(pending.verifier))
    const url = yield* withProvider(provider.issuer, async () =>
      client.buildAuthorizationUrl(config, {
        redirect_uri,
        scope: provider.scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge,
        code_challenge_method: "S256",
      })).pipe(Effect.mapError(makeUnavailable))
    // The browser is redirected to this address, which comes from the provider's metadata.
    return /^https?:$/.test(url.protocol) ? { url, pending } : yield* reject(provider, "its address is no web address")
  }),

  /**
   * Returns the admin from the URL with which the provider has sent the browser back. `pending` has the values that
   * `begin` returned for this sign-in.
   */
  finish: Effect.fnUntraced(function* (url: URL, pending: PendingSignIn) {
    const client = yield* loadClient
    const config = yield* discover(client, provider)
    const tokens = yield* requestTokens(client, config, provider, url, pending)
    const identity = tokens.claims()
    if (identity === undefined) return yield* reject(provider, "it sent no ID token")
    // Many providers return the email address and the groups only from the userinfo endpoint.
    const details = config.serverMetadata().userinfo_endpoint === undefined ? {} : yield* withProvider(
      provider.issuer,
      () => client.fetchUserInfo(config, tokens.access_token, identity.sub),
    ).pipe(Effect.mapError(makeUnavailable))
    // Claims of the ID token, which is signed, take precedence.
    return yield* toAdmin(provider, { ...details, ...identity }, identity.sub)
  }),
})

/** Sign-in with the configured provider. `None` if `ADMIN_OIDC_ISSUER` is not set. */
export class OpenIdConnect extends Context.Service<
  OpenIdConnect,
  Option.Option<ReturnType<typeof makeSignIn>>
>()("tickerline/operate/OpenIdConnect") {
  static readonly layer = Layer.effect(
    OpenIdConnect,
    Effect.gen(function* () {
      const provider = Option.all({
        issuer: yield* OidcIssuerConfig,
        clientId: yield* OidcClientIdConfig,
        groups: yield* OidcGroupsConfig,
      })
      const rest = {
        clientSecret: yield* OidcClientSecretConfig,
        groupsClaim: yield* OidcGroupsClaimConfig,
        scopes: yield* OidcScopesConfig,
      }
      return Option.map(provider, (required) => makeSignIn({ ...required, ...rest }))
    }),
  )
}
