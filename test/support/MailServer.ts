/**
 * An SMTP server in this process, whose replies the test chooses.
 *
 * ```ts
 * const server = yield* startMailServer()
 * const settings = { SMTP_URL: `smtp://127.0.0.1:${server.port}`, MAIL_FROM: "notices@tickerline.example" }
 * // … start a service with these settings, and queue an email …
 * yield* retryUntil(Effect.sync(() => server.received), (received) => received.length === 1)
 * ```
 */
import { Effect } from "effect"
import { SMTPServer } from "smtp-server"

/** An email accepted by the server. */
export interface ReceivedEmail {
  readonly to: ReadonlyArray<string>
  readonly raw: string
  /** The IP address from which the sender connected. */
  readonly from: string
}

/** An SMTP reply. */
export interface SmtpReply {
  readonly code: number
  readonly message: string
}

/**
 * The replies at each step of an SMTP session. Undefined means that the server accepts. If a promise never resolves,
 * the client gets no reply.
 */
export interface SmtpBehaviour {
  rcpt: (address: string) => Promise<SmtpReply | undefined>
  data: (received: ReceivedEmail) => Promise<SmtpReply | undefined>
  /** Runs before the server reads the body of an email. */
  beforeBody: () => Promise<void>
}

const accept = () => Promise.resolve(undefined)

const makeSmtpError = ({ code, message }: SmtpReply) => Object.assign(new Error(message), { responseCode: code })

/**
 * Starts an SMTP server, which stops when the scope closes. `received` contains the emails that it accepted. A test may
 * replace the functions of `behaviour`, which decide at each step of a session whether the server accepts or replies
 * with an error. `connections` returns how many connections there were, and `most` how many were open at the same time.
 */
export const startMailServer = Effect.fnUntraced(function* (port = 0, host = "127.0.0.1") {
  const received: Array<ReceivedEmail> = []
  const behaviour: SmtpBehaviour = { rcpt: accept, data: accept, beforeBody: () => Promise.resolve() }
  let connections = 0
  let most = 0
  let open = 0
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    closeTimeout: 50,
    onAuth: ({ password, username }, _session, done) =>
      username === "mailer" && password === "s3cret:/@" ? done(null, { user: username }) : done(
        Object.assign(new Error("Wrong"), { responseCode: 535 }),
      ),
    onConnect: (_session, done) => {
      connections += 1
      open += 1
      most = Math.max(most, open)
      done()
    },
    onClose: () => {
      open -= 1
    },
    onRcptTo: ({ address }, _session, done) =>
      void behaviour.rcpt(address).then((reply) => reply === undefined ? done() : done(makeSmtpError(reply))),
    onData: (stream, session, done) => {
      const chunks: Array<Buffer> = []
      void behaviour.beforeBody().then(() => stream.on("data", (chunk: Buffer) => chunks.push(chunk)))
      stream.on("end", () => {
        const mail = {
          to: session.envelope.rcptTo.map(({ address }) => address),
          raw: Buffer.concat(chunks).toString("utf8"),
          from: session.remoteAddress,
        }
        void behaviour.data(mail).then((reply) => {
          if (reply !== undefined) return done(makeSmtpError(reply))
          received.push(mail)
          done()
        })
      })
    },
  })
  // Ignores socket errors, because a client that is killed is not an error of this server.
  smtp.on("error", () => {})
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      smtp.listen(port, host, () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        smtp.close(() => resume(Effect.void))
      }),
  )
  const address = smtp.server.address()
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    received,
    behaviour,
    connections: () => connections,
    most: () => most,
  }
})

/** Returns the unfolded values of an email header. */
export const readEmailHeaders = (raw: string, name: string) => {
  const head = raw.slice(0, raw.indexOf("\r\n\r\n")).replaceAll(/\r\n[ \t]+/g, " ")
  return head.split("\r\n").filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`)).map((line) =>
    line.slice(name.length + 1).trim()
  )
}
