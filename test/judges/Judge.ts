/** Defines judges, which check the service with external programs, and runs these programs. */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"

/** The folder of this file. */
export const judgesFolder = fileURLToPath(new URL(".", import.meta.url))

/** The service that all judges test. */
export interface JudgedService {
  /** Scheme, address and port, such as `http://127.0.0.1:8080`. */
  readonly origin: string
  /** An API key. */
  readonly key: string
  /** An origin that the service allows for web pages (CORS). A judge can listen on its port. */
  readonly allowedOrigin: { readonly origin: string; readonly port: number }
  /** The served OpenAPI document. */
  readonly document: unknown
  /** Path of a file with the served document. */
  readonly documentFile: string
  /** A folder for temporary files. */
  readonly folder: string
  /** Whether the checks that take minutes also run. */
  readonly isFull: boolean
}

/** A check of the service with third-party programs. */
export interface Judge {
  readonly name: string
  /** Programs that must be installed. */
  readonly programs: ReadonlyArray<string>
  /** Resolves to the problems found in the service, or to an empty list. Rejects if the tools do not work. */
  readonly run: (target: JudgedService) => Promise<ReadonlyArray<string>>
}

/** Folders of programs. The tools that `check` installs come first. */
const searchPath = [
  join(judgesFolder, "node_modules/.bin"),
  join(judgesFolder, ".venv/bin"),
  join(judgesFolder, "helm/node_modules/.bin"),
  process.env["PATH"] ?? "",
].join(delimiter)

/** Whether a program is installed. */
export const isInstalled = (program: string) =>
  searchPath.split(delimiter).some((folder) => existsSync(join(folder, program)))

/** How a program runs. */
export interface ProgramOptions {
  readonly cwd?: string
  /** Environment variables, in addition to the ones that this process has. */
  readonly env?: Readonly<Record<string, string>>
}

/** How a program ended. */
export interface ProgramResult {
  readonly code: number | null
  /** Standard output and standard error. */
  readonly output: string
}

/** Starts a program, and collects its output. `stop` ends the program and waits for its end. */
export const startProgram = (program: string, args: ReadonlyArray<string>, { cwd, env }: ProgramOptions = {}) => {
  const child = spawn(program, args, {
    ...(cwd === undefined ? {} : { cwd }),
    env: { ...process.env, ...env, PATH: searchPath },
    stdio: ["ignore", "pipe", "pipe"],
  })
  let output = ""
  const append = (chunk: Buffer) => {
    output += chunk
  }
  child.stdout.on("data", append)
  child.stderr.on("data", append)
  const ended = new Promise<ProgramResult>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", (code) => resolve({ code, output }))
  })
  return {
    ended,
    stop: async () => {
      child.kill("SIGTERM")
      await ended
    },
  }
}

/** Runs a program until it ends. */
export const runProgram = (program: string, args: ReadonlyArray<string>, options?: ProgramOptions) =>
  startProgram(program, args, options).ended

/** Runs a program. Unless it exits with 0, its output is returned as a finding. */
export const runForFindings = async (program: string, args: ReadonlyArray<string>, options?: ProgramOptions) => {
  const { code, output } = await runProgram(program, args, options)
  return code === 0 ? [] : [`${program} ended with ${code}:\n${output}`]
}

/** Runs steps until one of them returns findings, and returns these findings. */
export const runSteps = async (steps: ReadonlyArray<() => Promise<ReadonlyArray<string>>>) => {
  for (const step of steps) {
    const findings = await step()
    if (findings.length > 0) return findings
  }
  return []
}

/** Reads a value inside JSON by keys and indexes. */
export const readJsonValue = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined,
    body,
  )
