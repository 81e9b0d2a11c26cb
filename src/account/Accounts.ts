/** Accounts made, listed and credited, for the command line. */
import { Data, Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { Tier } from "../policy/Access.ts"

export class NoSuchAccount extends Data.TaggedError("NoSuchAccount")<{ readonly message: string }> {}

export class AccountExists extends Data.TaggedError("AccountExists")<{ readonly message: string }> {}

export class AlreadyCredited extends Data.TaggedError("AlreadyCredited")<{ readonly message: string }> {}

const noSuchAccount = (name: string) =>
  new NoSuchAccount({ message: `There is no account ${name}. \`accounts list\` shows them all.` })

export interface Wanted {
  readonly name: string
  readonly tier: Tier
  readonly email: string | null
  /** Paid in advance, with nothing on it yet; otherwise billed later. */
  readonly prepaid: boolean
}

/** Makes an account where there is none of that name, and tells whether it did. */
const make = Effect.fnUntraced(function* ({ email, name, prepaid, tier }: Wanted) {
  const sql = yield* SqlClient.SqlClient
  const made = yield* sql`
    insert into accounts (name, tier, contact_email, balance_microdollars)
    values (${name}, ${tier}, ${email}, ${prepaid ? "0" : null}::text::bigint)
    on conflict (name) do nothing returning account_id
  `
  return made.length === 1
})

export const create = Effect.fnUntraced(function* (wanted: Wanted) {
  if (!(yield* make(wanted))) {
    return yield* new AccountExists({ message: `There is an account ${wanted.name} already. Nothing was changed.` })
  }
})

/** Leaves an account as it is where there is one. */
export const ensure = (wanted: Wanted) => Effect.asVoid(make(wanted))

export const exists = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`select from accounts where name = ${name}`
  if (found.length === 0) return yield* noSuchAccount(name)
})

/** Changes what the account may see and how much it may ask; instances notice within a second. */
export const setTier = Effect.fnUntraced(function* (name: string, tier: Tier) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`update accounts set tier = ${tier} where name = ${name} returning account_id`
  if (changed.length === 0) return yield* noSuchAccount(name)
})

/** Where the account is written to; null: nowhere. */
export const setEmail = Effect.fnUntraced(function* (name: string, email: string | null) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`update accounts set contact_email = ${email} where name = ${name} returning account_id`
  if (changed.length === 0) return yield* noSuchAccount(name)
})

/** Whether the account is told of new features; what concerns how its requests are answered it is told in any case. */
export const setNews = Effect.fnUntraced(function* (name: string, news: boolean) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`update accounts set news = ${news} where name = ${name} returning account_id`
  if (changed.length === 0) return yield* noSuchAccount(name)
})

export interface Credit {
  readonly name: string
  readonly microdollars: bigint
  /** Of the payment, say: it is credited once. */
  readonly reference: string | null
}

/** Adds to the balance, and answers it; an account that was billed later pays in advance from then on. */
export const credit = Effect.fnUntraced(function* ({ microdollars, name, reference }: Credit) {
  const sql = yield* SqlClient.SqlClient
  yield* exists(name)
  const [credited] = yield* sql<{ readonly balance: string }>`
    with credited as (
      insert into credits (account_id, amount_microdollars, reference)
      select account_id, ${String(microdollars)}::text::bigint, ${reference} from accounts where name = ${name}
      on conflict do nothing returning account_id, amount_microdollars
    )
    update accounts set balance_microdollars = coalesce(balance_microdollars, 0) + credited.amount_microdollars
    from credited where accounts.account_id = credited.account_id
    returning balance_microdollars::text as balance
  `
  if (credited === undefined) {
    return yield* new AlreadyCredited({ message: `${name} was credited for ${reference} before. Nothing was changed.` })
  }
  return BigInt(credited.balance)
})

const Listed = Schema.Struct({
  account_id: Schema.BigInt,
  name: Schema.String,
  tier: Schema.String,
  balance_microdollars: Schema.NullOr(Schema.BigInt),
  last_charged: Schema.NullOr(Schema.String),
  keys: Schema.BigInt,
  contact_email: Schema.NullOr(Schema.String),
})

/** Every account, oldest first. */
export const list = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const find = SqlSchema.findAll({
    Request: Schema.Void,
    Result: Listed,
    execute: () =>
      sql`
        select account_id, name, tier, balance_microdollars, contact_email,
          to_char(last_charged_at, 'YYYY-MM-DD HH24:MI:SS') as last_charged,
          (select count(*) from api_keys where api_keys.account_id = accounts.account_id) as keys
        from accounts order by account_id
      `,
  })
  return yield* find(undefined)
})
