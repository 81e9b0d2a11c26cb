/** Compares the two interfaces through which operators make changes: the admin API endpoints and the commands. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { HttpApi } from "effect/http-api"
import { AdminApi } from "../../../src/operate/admin/AdminApi.ts"
import { makeTickerlineCommand } from "../../../src/operate/cli/CommandLine.ts"

/** Lists the leaf commands, such as `accounts create`. */
const listCommands = (command: Command.Command.Any, names: ReadonlyArray<string> = []): ReadonlyArray<string> => {
  const commands = command.subcommands.flatMap((group) => group.commands)
  return commands.length === 0 ? [names.join(" ")] : commands.flatMap((one) => listCommands(one, [...names, one.name]))
}

/** Lists the admin API endpoints that change something. */
const listWritingEndpoints = () => {
  const endpoints: Array<string> = []
  HttpApi.reflect(AdminApi, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint: { method, path } }) => {
      if (method !== "GET") endpoints.push(`${method} ${path}`)
    },
  })
  return endpoints
}

/** The equivalent endpoint of each command. */
const endpointsByCommand: Readonly<Record<string, string>> = {
  "accounts budget": "PUT /v1/accounts/:name/budget",
  "accounts create": "POST /v1/accounts",
  "accounts credit": "POST /v1/accounts/:name/credits",
  "accounts erase": "POST /v1/accounts/:name/erase",
  "accounts news": "PATCH /v1/accounts/:name",
  "accounts set-email": "PATCH /v1/accounts/:name",
  "accounts set-tier": "PATCH /v1/accounts/:name",
  "admin tokens create": "POST /v1/tokens",
  "admin tokens revoke": "POST /v1/tokens/:id/revoke",
  "announce": "POST /v1/announcements",
  "announcements retry": "POST /v1/announcements/retry",
  "keys create": "POST /v1/keys",
  "keys disable": "POST /v1/keys/:id/disable",
  "keys enable": "POST /v1/keys/:id/enable",
  "keys revoke": "POST /v1/keys/:id/revoke",
  "keys rotate": "POST /v1/keys/:id/rotate",
  "keys set-networks": "POST /v1/keys/:id/networks",
  "webhooks disable": "POST /v1/webhooks/:id/disable",
  "webhooks enable": "POST /v1/webhooks/:id/enable",
  "webhooks replay": "POST /v1/webhooks/replay",
}

/** The commands that change something but have no endpoint, each with the reason. */
const commandsWithoutEndpoint: Readonly<Record<string, string>> = {
  "admin invite": "is for the first sign-in, when nobody has a token",
  "generate": "writes files",
  "grant": "needs a PostgreSQL role that the service does not have",
  "ingest doubts confirm": "as lineage confirm",
  "ingest doubts correct": "as lineage confirm",
  "ingest edgar": "needs the network and a process of its own; the service does it on a schedule",
  "ingest prices": "reads files of the host",
  "invoices close": "closes account by account, but a write of the admin API is one transaction",
  "lineage confirm": "changes a dataset, for which the role of the admin API has no privilege",
  "lineage reject": "as lineage confirm",
  "load": "reads files of the host",
  "migrate": "needs a PostgreSQL role that the service does not have",
  "restore": "reads files of the host, into an empty database",
  "samples remove": "as lineage confirm",
  "serve": "is the service",
  "undo-load": "as lineage confirm",
  "webhooks create": "the role of the admin API cannot read the secrets of webhooks",
  "webhooks delete": "removes its messages too; disabling is enough, and can be undone",
  "webhooks rotate-secret": "as webhooks create",
  "webhooks test": "as webhooks create",
}

/** The commands that only read. */
const readingCommands = [
  "accounts list",
  "admin tokens list",
  "announcements problems",
  "audit",
  "backup check",
  "changes",
  "datasets",
  "doctor",
  "ingest check",
  "ingest rejections",
  "invoices list",
  "invoices show",
  "keys list",
  "lineage review",
  "mcp",
  "openapi",
  "query",
  "usage explain",
  "webhooks deliveries",
  "webhooks list",
]

/** The endpoints that change something but have no command, each with the reason. */
const endpointsWithoutCommand: Readonly<Record<string, string>> = {
  "POST /v1/me/revoke": "ends the session of the browser that sends it; a command has none",
}

describe("What operators can change", () => {
  it("with a command, they can also change with the admin API, except what is listed (operations/admin-api)", () => {
    const known = [
      ...readingCommands,
      ...Object.keys(endpointsByCommand),
      ...Object.keys(commandsWithoutEndpoint),
    ]
    assert.deepStrictEqual(listCommands(makeTickerlineCommand(Effect.void)).toSorted(), known.toSorted())
  })

  it("with the admin API, they can also change with a command, except what is listed (operations/admin-api)", () => {
    const known = new Set([...Object.values(endpointsByCommand), ...Object.keys(endpointsWithoutCommand)])
    assert.deepStrictEqual(listWritingEndpoints().toSorted(), [...known].toSorted())
  })
})
