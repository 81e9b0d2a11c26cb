/**
 * Creates, changes, credits and lists accounts for the command line and the admin API. Numbers are sent to PostgreSQL
 * and selected as `float8`, which matches JavaScript's number type, because the driver would return a `bigint` as a
 * BigInt.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../postgres/DecodeRows.ts"
import { isInvalidObjectState } from "../postgres/SqlState.ts"
import type { PageRange } from "../contract/rules/Cursors.ts"
import { formatTimeSql, makeTimeSql, PrintedTime } from "../contract/rules/Dates.ts"
import { Tier } from "../contract/rules/EndpointAnnotations.ts"
import { NewAccountName } from "./TrimmedName.ts"

const isNewAccountName = Schema.is(NewAccountName)

class NoSuchAccount extends Data.TaggedError("NoSuchAccount")<{ readonly message: string }> {}

class AccountExists extends Data.TaggedError("AccountExists")<{ readonly message: string }> {}

class AlreadyCredited extends Data.TaggedError("AlreadyCredited")<{ readonly message: string }> {}

/** An account with this name exists, but its tier or email address differs from the one given for a new key. */
class AccountMismatch extends Data.TaggedError("AccountMismatch")<{ readonly message: string }> {}

/** The credit would turn a postpaid account into a prepaid one, but `--prepaid` was not given. */
class AccountIsPostpaid extends Data.TaggedError("AccountIsPostpaid")<{ readonly message: string }> {}

/** The account has been erased. It can no longer be given keys, credits, webhooks or a new name. */
export class AccountErased extends Data.TaggedError("AccountErased")<{ readonly message: string }> {}

/** Creates the error for an unknown account name. */
export const noSuchAccount = (name: string) =>
  new NoSuchAccount({
    message: `There is no account ${name}. \`accounts list\` shows all accounts; \`accounts create\` creates one.`,
  })

/** The properties of a new account. */
export interface NewAccount {
  readonly name: string
  readonly tier: Tier
  readonly email: string | null
  /** A prepaid account starts with a balance of 0. A postpaid account has no balance. */
  readonly prepaid: boolean
}

/** Inserts an account unless the name is taken. Returns whether it was inserted. */
const insertAccount = Effect.fnUntraced(function* ({ email, name, prepaid, tier }: NewAccount) {
  const sql = yield* SqlClient.SqlClient
  const inserted = yield* sql`
    insert into accounts (name, tier, contact_email, balance_microdollars)
    values (${name}, ${tier}, ${email}, ${prepaid ? "0" : null}::text::bigint)
    on conflict (name) do nothing returning account_id
  `
  return inserted.length === 1
})

/** Creates an account. Fails if the name is taken. */
export const createAccount = Effect.fnUntraced(function* (account: NewAccount) {
  if (!(yield* insertAccount(account))) {
    return yield* new AccountExists({ message: `The account ${account.name} exists already. Nothing was changed.` })
  }
})

/**
 * Creates an account unless an account with this name exists. An existing account is left unchanged, even if its
 * properties differ.
 */
export const ensureAccount = (account: NewAccount) => Effect.asVoid(insertAccount(account))

const accountErased = (name: string) =>
  new AccountErased({ message: `The account ${name} is erased and cannot be used. Nothing was changed.` })

const requireNotErased = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const erased = yield* sql`
    select from accounts join account_erasures using (account_id) where name = ${name}
  `
  if (erased.length > 0) return yield* accountErased(name)
})

/**
 * Returns a function that runs a write, such as creating a key, only if the named account has not been erased. If an
 * erasure commits between this check and the write, a database trigger rejects the write, and the caller gets the same
 * `AccountErased` error.
 */
export const failIfErased = (name: string) => <A, E, R>(write: Effect.Effect<A, E, R>) =>
  Effect.andThen(requireNotErased(name), write).pipe(
    Effect.catchIf(isInvalidObjectState, () => Effect.fail(accountErased(name))),
  )

const AccountTerms = Schema.Struct({
  tier: Tier,
  contact_email: Schema.NullOr(Schema.String),
  is_postpaid: Schema.Boolean,
})

const findTerms = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(AccountTerms)(sql`
    select tier, contact_email, balance_microdollars is null as is_postpaid from accounts where name = ${name}
  `)
  return found ?? (yield* noSuchAccount(name))
})

/**
 * Ensures that the account for a new key exists. Creates a missing account if a tier is given, and fails if none is
 * given. Never changes an existing account: fails if a given tier or email address differs from the account's.
 */
export const ensureAccountForKey = Effect.fnUntraced(function* (name: string, tier: Tier | null, email: string | null) {
  const isCreatable = tier !== null && isNewAccountName(name)
  if (isCreatable && (yield* insertAccount({ name, tier, email, prepaid: false }))) return
  yield* requireNotErased(name)
  const terms = yield* findTerms(name)
  const quoted = JSON.stringify(name)
  if (tier !== null && tier !== terms.tier) {
    return yield* new AccountMismatch({
      message: `The account ${name} has the tier ${terms.tier}, which a new key does not change. No key was created. ` +
        `Omit --tier, or change the tier for all keys of the account: accounts set-tier ${quoted} ${tier}`,
    })
  }
  if (email !== null && email !== terms.contact_email) {
    return yield* new AccountMismatch({
      message:
        `The account ${name} has ${terms.contact_email === null ? "no email address" : "another email address"}, ` +
        `which a new key does not change. No key was created. Omit --email, or change the address: ` +
        `accounts set-email ${quoted} ${email}`,
    })
  }
})

/** The account properties that can be changed. Omitted properties stay as they are. */
export interface AccountChange {
  /**
   * Determines which endpoints the account can use, and its rate limit. Running processes apply a new tier within a
   * second.
   */
  readonly tier?: Tier
  /** Null if the account should not receive any emails. */
  readonly contact_email?: string | null
  /**
   * Whether the account receives emails about new features. Emails about changes that affect its clients are always
   * sent.
   */
  readonly news?: boolean
}

/** Changes an account. Fails if it does not exist or has been erased. */
export const updateAccount = Effect.fnUntraced(function* (name: string, change: AccountChange) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`
    update accounts set ${sql.update({ ...change })} where name = ${name} returning account_id
  `
  if (changed.length === 0) return yield* noSuchAccount(name)
}, (write, name) => failIfErased(name)(write))

interface AccountCredit {
  readonly name: string
  readonly microdollars: bigint
  /** Identifies the payment, so that the same payment cannot be credited twice. */
  readonly reference: string | null
  /** Whether the credit may turn a postpaid account into a prepaid one. */
  readonly mayBecomePrepaid: boolean
}

const CreditResult = Schema.Struct({ balance: Schema.BigInt, switched: Schema.Boolean })

/**
 * Adds a credit to an account's balance. Returns the new balance, and whether the credit made the account prepaid
 * (`switched`). Fails if the account has already been credited for the same `reference`, such as a payment, or if the
 * account is postpaid and `mayBecomePrepaid` is false.
 *
 * A postpaid account has no balance (null). `add_credit` returns null if the account was credited already.
 */
export const creditAccount = Effect.fnUntraced(function* (newCredit: AccountCredit) {
  const sql = yield* SqlClient.SqlClient
  const { mayBecomePrepaid, microdollars, name, reference } = newCredit
  const addCredit = decodeRows(CreditResult)(sql`
    select * from (
      select add_credit(account_id, ${String(microdollars)}::text::bigint, ${reference}) as balance,
        balance_microdollars is null as switched
      from accounts where name = ${name} and (${mayBecomePrepaid} or balance_microdollars is not null)
    ) as credited
    where balance is not null
  `)
  // The row is locked by a separate statement. A statement that waits for a lock does not see what was committed during
  // the wait. If `add_credit` itself waited, it would miss usage charged to the balance in that time.
  const lock = sql`select from accounts where name = ${name} for no key update`
  const [credited] = yield* sql.withTransaction(Effect.andThen(lock, addCredit))
  if (credited !== undefined) return credited
  if ((yield* findTerms(name)).is_postpaid && !mayBecomePrepaid) {
    return yield* new AccountIsPostpaid({
      message: `The account ${name} is postpaid and has no balance. Nothing was changed. ` +
        "With --prepaid it is credited and becomes prepaid: once its balance is used up, its requests are refused " +
        "with 402.",
    })
  }
  return yield* new AlreadyCredited({ message: `${name} was credited for ${reference} already. Nothing was changed.` })
}, (write, { name }) => failIfErased(name)(write))

/** An account as shown by the admin API and the command line. */
export const Account = Schema.Struct({
  account_id: Schema.Int,
  name: Schema.String,
  tier: Tier,
  contact_email: Schema.NullOr(Schema.String),
  news: Schema.Boolean.annotate({ description: "Whether the account gets emails about new features." }),
  balance_microdollars: Schema.NullOr(Schema.Finite).annotate({
    description: "Null: the account is postpaid. Rounded from 2^53 on.",
  }),
  budget_microdollars: Schema.NullOr(Schema.Finite).annotate({ description: "Budget per month. Null: none." }),
  budget_stops: Schema.Boolean.annotate({
    description: "Whether requests for data are refused once the budget is used up.",
  }),
  budget_spent_microdollars: Schema.NullOr(Schema.Finite).annotate({
    description: "Cost of this month's usage (New York). Null: no budget.",
  }),
  last_charged_at: Schema.NullOr(PrintedTime),
  created_at: PrintedTime,
  erased_at: Schema.NullOr(PrintedTime).annotate({ description: "Null: the account is not erased." }),
  keys: Schema.Int.annotate({ description: "Number of keys, also of those that do not work any more." }),
}).annotate({ identifier: "Account" })

/** The decoded account. */
export type Account = typeof Account.Type

const accountColumnsSql = `
  account_id::float8, name, tier, contact_email, news, current_balance(accounts)::float8 as balance_microdollars,
  budget_microdollars::float8,
  budget_stops, budget_spent_this_month(accounts)::float8 as budget_spent_microdollars,
  ${formatTimeSql("newest_charge(accounts)")} as last_charged_at, ${makeTimeSql("created_at")},
  (select ${formatTimeSql("erased_at")} from account_erasures
    where account_erasures.account_id = accounts.account_id) as erased_at,
  (select count(*) from api_keys where api_keys.account_id = accounts.account_id)::float8 as keys`

/**
 * Returns an account. With `isLocked`, the row is locked until the transaction ends, so that no one else can change it.
 */
export const findAccount = Effect.fnUntraced(function* (name: string, isLocked = false) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(Account)(sql`
    select ${sql.literal(accountColumnsSql)} from accounts where name = ${name}
    ${sql.literal(isLocked ? "for no key update" : "")}
  `)
  return found ?? (yield* noSuchAccount(name))
})

interface AccountSelection extends PageRange {
  /** Selects accounts whose name or email address contains this text. Case is ignored. */
  readonly search?: string | undefined
}

/** Returns accounts, oldest first. Returns all of them unless the arguments limit the selection. */
export const listAccounts = Effect.fnUntraced(function* ({ after = 0, limit, search = "" }: AccountSelection = {}) {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(Account)(sql`
    select ${sql.literal(accountColumnsSql)} from accounts
    where account_id > ${after}::float8::bigint
      and (${search} = '' or position(lower(${search}) in lower(concat_ws(' ', name, contact_email))) > 0)
    order by account_id limit ${limit ?? null}::float8::bigint
  `)
})

/** A credit as shown by the admin API and the command line. */
export const Credit = Schema.Struct({
  credit_id: Schema.Int,
  amount_microdollars: Schema.Finite,
  reference: Schema.NullOr(Schema.String),
  created_at: PrintedTime,
}).annotate({ identifier: "Credit" })

/** Returns an account's credits, newest first. */
export const listCredits = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const { account_id } = yield* findAccount(name)
  return yield* decodeRows(Credit)(sql`
    select credit_id::float8, amount_microdollars::float8, reference, ${sql.literal(makeTimeSql("created_at"))}
    from credits where account_id = ${account_id}::float8::bigint order by credit_id desc
  `)
})
