/** Settings for emails to customers. Without `SMTP_URL`, no emails are sent. */
import { Config, Duration, Effect, Option, Redacted, Schema } from "effect"
import { EmailAddress, isEmailAddress } from "../../contract/EmailAddress.ts"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"

/** An email address with a display name. */
export interface Mailbox {
  readonly name: string
  readonly address: string
}

const parseMailbox = (text: string): Mailbox | undefined => {
  const [, name = "", address = ""] = /^\s*"?([^"<>\p{Cc}]*?)"?\s*<([^<>]+)>\s*$/u.exec(text) ?? ["", "", text.trim()]
  return isEmailAddress(address) ? { name, address } : undefined
}

/** The sender address of emails, such as `Tickerline <notices@example.com>`. */
export const EmailSenderAddressConfig = Config.schema(
  Schema.String.check(Schema.makeFilter((text: string) => parseMailbox(text) !== undefined, {
    message: "must be an email address, such as Tickerline <notices@example.com>",
  })),
  "MAIL_FROM",
).pipe(Config.map((text) => parseMailbox(text) ?? { name: "", address: text }))

/** The address that customers write to if they no longer want to receive news. */
export const UnsubscribeAddressConfig = Config.option(Config.schema(EmailAddress, "MAIL_UNSUBSCRIBE"))

const isSmtpUrl = (text: string) => {
  try {
    const { hash, hostname, password, pathname, protocol, search, username } = new URL(text)
    decodeURIComponent(`${username}:${password}`)
    return /^smtps?:$/.test(protocol) && hostname !== "" && /^\/?$/.test(pathname) && search === "" && hash === "" &&
      (username === "") === (password === "")
  } catch {
    return false
  }
}

/** The URL of the mail server, including credentials. */
export const SmtpUrlConfig = Config.schema(
  Schema.String.check(Schema.makeFilter(isSmtpUrl, {
    message: "must be the URL of a mail server: smtp://user:password@host:587, or smtps:// for implicit TLS",
  })),
  "SMTP_URL",
).pipe(Config.map((text) => Redacted.make(text)))

/** Maximum number of emails sent per minute. */
export const EmailsPerMinuteConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 6_000 })),
  "MAIL_PER_MINUTE",
).pipe(Config.withDefault(60))

/** Delay before the first retry. */
export const EmailRetryDelayConfig = Config.Duration("MAIL_RETRY_AFTER").pipe(Config.withDefault(Duration.minutes(1)))

/** Loads the mail settings. Returns `None` if `SMTP_URL` is not set. */
export const loadMailSettings = Effect.gen(function* () {
  const url = yield* Config.option(SmtpUrlConfig)
  if (Option.isNone(url)) return Option.none()
  const pace = Duration.divideUnsafe(Duration.minutes(1), yield* EmailsPerMinuteConfig)
  return Option.some({
    url: url.value,
    from: yield* EmailSenderAddressConfig,
    unsubscribe: yield* UnsubscribeAddressConfig,
    /** The service's base URL, which is used for links. */
    baseUrl: yield* BaseUrlConfig,
    /** Delay between two emails. */
    pace,
    /** Delay before the first retry. It doubles with each further retry. */
    retryAfter: yield* EmailRetryDelayConfig,
  })
})

/** The mail settings of a process for which `SMTP_URL` is set. */
export type MailSettings = Option.Option.Value<Effect.Success<typeof loadMailSettings>>
