/**
 * The demo key of an embedded database. The key gives access to every endpoint, so it exists only while the database
 * contains nothing but sample data: the first start creates the key, and loading any other data revokes it.
 */
import { Effect, FileSystem, Option, Path, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { ensureAccount, type NewAccount } from "../../accounts/Accounts.ts"
import { makeApiKeyHasher } from "../../accounts/keys/ApiKeyFormat.ts"
import { createApiKey } from "../../accounts/keys/ApiKeyManagement.ts"
import { EmbeddedHomeDirectory } from "../../postgres/ConnectionLayers.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { BeforeLoadCommit } from "../../ingest/load/DatasetLoad.ts"

const demoAccount: NewAccount = { name: "demo", tier: "ultimate", email: null, prepaid: false }
const demoKeyName = "demo"

/** Returns the path of the file that contains the demo key. */
export const getDemoKeyFile = (home: string) => Effect.map(Path.Path, (path) => path.join(home, "demo-key"))

/** Returns the path of the folder that contains the sample data files. */
export const getSamplesFolder = (home: string) => Effect.map(Path.Path, (path) => path.join(home, "samples"))

/** Creates the demo key and writes it to its file. Must run in the transaction that loads the sample data. */
export const createDemoKey = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* getDemoKeyFile(home)
  yield* ensureAccount(demoAccount)
  const { key } = yield* createApiKey({
    account: demoAccount.name,
    name: demoKeyName,
    expires: null,
    endpoints: null,
    networks: null,
  })
  yield* fs.writeFileString(file, `${key}\n`, { mode: 0o600 })
})

const isActiveKey = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const digest = yield* hash(Redacted.make(key))
  const rows = yield* sql`
    select 1 from api_keys
    where key_hash = decode(${digest}, 'hex') and revoked_at is null and disabled_at is null
      and (expires_at is null or expires_at > now())
  `
  return rows.length > 0
})

/** Returns the path of the demo key file, or `None` if there is no demo key or it is no longer valid. */
export const findDemoKeyFile = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* getDemoKeyFile(home)
  const stored = yield* Effect.option(fs.readFileString(file))
  return Option.isSome(stored) && (yield* isActiveKey(stored.value.trim())) ? Option.some(file) : Option.none<string>()
})

const revokedMessage = "The demo key was revoked, because the database no longer contains only sample data. " +
  `Create a key of your own with: ${tickerlineCommand} keys create --account me --tier ultimate`

/** Revokes the demo key in the current transaction. After the commit, deletes the key file and tells the user. */
export const revokeDemoKey = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const sql = yield* SqlClient.SqlClient
  const file = yield* getDemoKeyFile(home)
  const samples = yield* getSamplesFolder(home)
  const exists = (path: string) => Effect.orElseSucceed(fs.exists(path), () => false)
  // The user may have deleted the key file. If the sample data folder is missing too, an account named "demo" was
  // created by the operator, and its key is not revoked.
  const hasFile = yield* exists(file)
  if (!hasFile && !(yield* exists(samples))) return
  const revoked = yield* sql`
    update api_keys set revoked_at = now() from accounts
    where accounts.account_id = api_keys.account_id and accounts.name = ${demoAccount.name}
      and api_keys.name = ${demoKeyName} and revoked_at is null
      -- Without its file, the demo key is the first key in the database.
      and (${hasFile} or key_id = (select min(key_id) from api_keys))
    returning key_id
  `
  yield* sql.afterCommit(Effect.andThen(
    Effect.ignore(fs.remove(file)),
    revoked.length === 0 ? Effect.void : Effect.logWarning(revokedMessage),
  ))
})

/** Returns whether `file` is one of the sample data files that the first start created. */
const isSampleFile = Effect.fnUntraced(function* (file: string, home: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const [folder, real] = yield* Effect.all([fs.realPath(yield* getSamplesFolder(home)), fs.realPath(file)])
  return path.dirname(real) === folder
}, Effect.orElseSucceed(() => false))

/**
 * Runs `effect`. If it loads data into an embedded database, revokes the demo key in the same transaction, unless
 * `file` is one of the sample data files. `file` is undefined if the rows do not come from a file.
 */
export const withDemoKeyRevocation = <A, E, R>(effect: Effect.Effect<A, E, R>, file?: string) =>
  Effect.gen(function* () {
    const { folder } = yield* EmbeddedHomeDirectory
    if (Option.isNone(folder)) return yield* effect
    const home = folder.value
    if (file !== undefined && (yield* isSampleFile(file, home))) return yield* effect
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | SqlClient.SqlClient>()
    return yield* Effect.provideService(effect, BeforeLoadCommit, Effect.provide(revokeDemoKey(home), services))
  })
