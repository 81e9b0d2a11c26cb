/** Whether the port is free for the service, or who has it. Nothing is opened there. */
import { Effect, Option, Schema } from "effect"
import { HttpClient } from "effect/http"
import { connect } from "node:net"
import { networkInterfaces } from "node:os"
import process from "node:process"
import { HostConfig, PortConfig, ReusePortConfig } from "../ServeCommand.ts"
import { failed, passed, warned } from "./Finding.ts"

const isTaken = (host: string, port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect({ host, port, timeout: 2000 })
    const end = (taken: boolean) => {
      socket.destroy()
      resume(Effect.succeed(taken))
    }
    socket.once("connect", () => end(true))
    socket.once("timeout", () => end(false))
    socket.once("error", () => end(false))
    return Effect.sync(() => socket.destroy())
  })

const Document = Schema.fromJsonString(Schema.Struct({
  info: Schema.Struct({ title: Schema.String, version: Schema.String }),
}))

/** The service says of itself who it is. */
const whoAnswers = Effect.fnUntraced(
  function* (origin: string) {
    const response = yield* HttpClient.get(`${origin}/v1/openapi.json`)
    return yield* Schema.decodeEffect(Document)(yield* response.text)
  },
  Effect.timeout("3 seconds"),
  Effect.option,
)

const everywhere = new Set(["0.0.0.0", "::"])

const isOwn = (host: string) =>
  host === "localhost" || everywhere.has(host) || host.startsWith("127.") ||
  Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host) === true)

export const checkPort = Effect.gen(function* () {
  const [host, port, shares] = [yield* HostConfig, yield* PortConfig, yield* ReusePortConfig]
  const check = "port"
  if (/^[\d.]+$|:/.test(host) && !isOwn(host)) {
    return failed(check, `${host} is no address of this machine`, "Set HOST to one, or to 0.0.0.0 for all of them.")
  }
  const near = everywhere.has(host) ? "127.0.0.1" : host
  if (!(yield* isTaken(near, port))) {
    return port < 1024 && process.getuid?.() !== 0
      ? warned(check, `${port} is free, but may need rights`, "Choose a PORT from 1024 on, behind a balancer.")
      : passed(check, `${port} is free; the service does not run`)
  }
  const who = yield* whoAnswers(`http://${near.includes(":") ? `[${near}]` : near}:${port}`)
  if (Option.isSome(who) && who.value.info.title.startsWith("Tickerline")) {
    return passed(check, `${port}: the service runs (API ${who.value.info.version}${shares ? ", and shares it" : ""})`)
  }
  return failed(check, `${port} is in use by another program`, "End that program, or set PORT to a free one.")
})
