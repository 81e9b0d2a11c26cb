/** Defines judges, which check the service with third-party programs, and the helpers that run those programs. */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"

/** The folder that contains this file. */
export const judgesFolder = fileURLToPath(new URL(".", import.meta.url))

/** The service that all judges test. */
export interface JudgedService {
  /** The scheme, address and port, such as `http://127.0.0.1:8080`. */
  readonly origin: string
  /** A valid API key. */
  readonly key: string
  /** An origin from which the service accepts browser requests (CORS). A judge may listen on its port. */
  readonly allowedOrigin: { readonly origin: string; readonly port: number }
  /** The OpenAPI document as the service serves it, parsed. */
  readonly document: unknown
  /** The path of a file that contains the served OpenAPI document. */
  readonly documentFile: string
  /** A folder for temporary files. */
  readonly folder: string
  /** Whether to also run the checks that take minutes. */
  readonly isFull: boolean
}

/** A check of the service that runs third-party programs. */
export interface Judge {
  readonly name: string
  /** The programs that must be installed. */
  readonly programs: ReadonlyArray<string>
  /**
   * Resolves to the problems found in the service, or to an empty list if there are none. Rejects if the tools
   * themselves fail.
   */
  readonly run: (target: JudgedService) => Promise<ReadonlyArray<string>>
}

/** Folders to search for programs. The tools installed by `check` take precedence. */
const searchPath = [
  join(judgesFolder, "node_modules/.bin"),
  join(judgesFolder, ".venv/bin"),
  join(judgesFolder, "helm/node_modules/.bin"),
  process.env["PATH"] ?? "",
].join(delimiter)

/** Returns whether a program is installed. */
export const isInstalled = (program: string) =>
  searchPath.split(delimiter).some((folder) => existsSync(join(folder, program)))

/** Options for running a program. */
export interface ProgramOptions {
  readonly cwd?: string
  /** Environment variables, in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>
}

/** The result of a program run. */
export interface ProgramResult {
  readonly code: number | null
  /** Standard output and standard error, interleaved. */
  readonly output: string
}

/** Starts a program and collects its output. `stop` terminates the program and waits until it has exited. */
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

/** Runs a program to completion. */
export const runProgram = (program: string, args: ReadonlyArray<string>, options?: ProgramOptions) =>
  startProgram(program, args, options).ended

/** Runs a program. If it exits with a code other than 0, returns its output as a finding. */
export const runForFindings = async (program: string, args: ReadonlyArray<string>, options?: ProgramOptions) => {
  const { code, output } = await runProgram(program, args, options)
  return code === 0 ? [] : [`${program} ended with ${code}:\n${output}`]
}

/** Runs steps in order until one returns findings, and returns those findings. */
export const runSteps = async (steps: ReadonlyArray<() => Promise<ReadonlyArray<string>>>) => {
  for (const step of steps) {
    const findings = await step()
    if (findings.length > 0) return findings
  }
  return []
}

/** Reads a nested JSON value by a path of keys and indexes. */
export const readJsonValue = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined,
    body,
  )
