/**
 * Creates, changes, credits and lists accounts, for the command line and the admin API. Numbers are sent and read as
 * `float8`, JavaScript's own type of number, because the driver would return a `bigint` as a BigInt.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../postgres/DecodeRows.ts"
import { isStateWrong } from "../postgres/SqlState.ts"
import type { PageRange } from "../contract/rules/Cursors.ts"
import { formatTimeSql, makeTimeSql, PrintedTime } from "../contract/rules/Dates.ts"
import { Tier } from "../contract/rules/EndpointAnnotations.ts"
import { NewAccountName } from "./TrimmedName.ts"

const isNewAccountName = Schema.is(NewAccountName)

class NoSuchAccount extends Data.TaggedError("NoSuchAccount")<{ readonly message: string }> {}

class AccountExists extends Data.TaggedError("AccountExists")<{ readonly message: string }> {}

class AlreadyCredited extends Data.TaggedError("AlreadyCredited")<{ readonly message: string }> {}

/** The account already exists, with a different tier or email address. */
class AccountMismatch extends Data.TaggedError("AccountMismatch")<{ readonly message: string }> {}

/** The credit would turn a postpaid account into a prepaid one without `--prepaid`. */
class AccountIsPostpaid extends Data.TaggedError("AccountIsPostpaid")<{ readonly message: string }> {}

/** The account has been erased. It can no longer get keys, credits, webhooks or a name. */
export class AccountErased extends Data.TaggedError("AccountErased")<{ readonly message: string }> {}

/** Creates the error for a name that no account has. */
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

/** Inserts an account unless its name is taken. Returns whether the account was inserted. */
const insertAccount = Effect.fnUntraced(function* ({ email, name, prepaid, tier }: NewAccount) {
  const sql = yield* SqlClient.SqlClient
  const inserted = yield* sql`
    insert into accounts (name, tier, contact_email, balance_microdollars)
    values (${name}, ${tier}, ${email}, ${prepaid ? "0" : null}::text::bigint)
    on conflict (name) do nothing returning account_id
  `
  return inserted.length === 1
})

/** Creates an account. Fails if there is already one with the name. */
export const createAccount = Effect.fnUntraced(function* (account: NewAccount) {
  if (!(yield* insertAccount(account))) {
    return yield* new AccountExists({ message: `The account ${account.name} exists already. Nothing was changed.` })
  }
})

/** Creates an account, or leaves an existing one unchanged. */
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
 * Returns a function that runs a write only if the account has not been erased. If an erasure commits between the check
 * and the write, a trigger refuses the write, and the result is the same error.
 */
export const unlessErased = (name: string) => <A, E, R>(write: Effect.Effect<A, E, R>) =>
  Effect.andThen(requireNotErased(name), write).pipe(
    Effect.catchIf(isStateWrong, () => Effect.fail(accountErased(name))),
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
 * Ensures that the account for a new key exists. A missing account is created if a tier is given. An existing account
 * is never changed: if it has another tier or email address than the given one, this fails.
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

/** The properties of an account that can be changed; missing ones do not change. */
export interface AccountChange {
  /** The tier, which determines the endpoints and the rate limit. Processes apply a new tier within a second. */
  readonly tier?: Tier
  /** If it is null, the account receives no emails. */
  readonly contact_email?: string | null
  /** Whether the account gets emails about new features. It always gets those about changes that affect its clients. */
  readonly news?: boolean
}

/** Changes an account. Fails if it does not exist or has been erased. */
export const updateAccount = Effect.fnUntraced(function* (name: string, change: AccountChange) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`
    update accounts set ${sql.update({ ...change })} where name = ${name} returning account_id
  `
  if (changed.length === 0) return yield* noSuchAccount(name)
}, (write, name) => unlessErased(name)(write))

interface AccountCredit {
  readonly name: string
  readonly microdollars: bigint
  /** Identifies the payment, so that it is credited only once. */
  readonly reference: string | null
  /** Whether the credit may make a postpaid account prepaid. */
  readonly mayBecomePrepaid: boolean
}

const CreditResult = Schema.Struct({ balance: Schema.BigInt, switched: Schema.Boolean })

/** Adds an amount to the balance. Returns the new balance, and whether the account was postpaid before. */
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
  // Locks in a separate statement, because a statement does not see what is committed while it waits for a lock: usage
  // that is settled in the meantime would be missing from the balance.
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
}, (write, { name }) => unlessErased(name)(write))

/** An account as the admin API and the command line show it. */
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

/** Returns an account. `isLocked` prevents others from changing it until the transaction ends. */
export const findAccount = Effect.fnUntraced(function* (name: string, isLocked = false) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(Account)(sql`
    select ${sql.literal(accountColumnsSql)} from accounts where name = ${name}
    ${sql.literal(isLocked ? "for no key update" : "")}
  `)
  return found ?? (yield* noSuchAccount(name))
})

interface AccountSelection extends PageRange {
  /** Selects accounts whose name or email address contains this text, ignoring case. */
  readonly search?: string | undefined
}

/** Returns accounts, oldest first; all of them by default. */
export const listAccounts = Effect.fnUntraced(function* ({ after = 0, limit, search = "" }: AccountSelection = {}) {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(Account)(sql`
    select ${sql.literal(accountColumnsSql)} from accounts
    where account_id > ${after}::float8::bigint
      and (${search} = '' or position(lower(${search}) in lower(concat_ws(' ', name, contact_email))) > 0)
    order by account_id limit ${limit ?? null}::float8::bigint
  `)
})

/** A credit as the admin API and the command line show it. */
export const Credit = Schema.Struct({
  credit_id: Schema.Int,
  amount_microdollars: Schema.Finite,
  reference: Schema.NullOr(Schema.String),
  created_at: PrintedTime,
}).annotate({ identifier: "Credit" })

/** Returns the credits of an account, newest first. */
export const listCredits = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const { account_id } = yield* findAccount(name)
  return yield* decodeRows(Credit)(sql`
    select credit_id::float8, amount_microdollars::float8, reference, ${sql.literal(makeTimeSql("created_at"))}
    from credits where account_id = ${account_id}::float8::bigint order by credit_id desc
  `)
})
