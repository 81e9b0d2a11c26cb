/** Attacks the service with slow clients. Another client must get responses, and slow requests must be closed. */
import { type Judge, type JudgedService, runProgram } from "./Judge.ts"

/** Maximum duration of a request by another client, ms: half of the time after which slow requests are closed. */
const maxDurationMillis = 5_000

interface Attack {
  readonly name: string
  readonly args: ReadonlyArray<string>
  /** Part of the tool's output that says how the attack ended. */
  readonly end: string
}

const closesAll = "No open connections left"

/** The attack that always runs. */
const attack: Attack = { name: "slow headers", args: ["-H", "-c", "100", "-r", "100", "-l", "60"], end: closesAll }

/** The attacks that run with `--full`. */
const fullAttacks: ReadonlyArray<Attack> = [
  { name: "900 times slow headers", args: ["-H", "-c", "900", "-r", "300", "-l", "60"], end: closesAll },
  { name: "slow bodies", args: ["-B", "-c", "900", "-r", "300", "-l", "90"], end: closesAll },
  // The service allows slow readers three minutes, so this attack reaches its own time limit of 30 seconds first.
  {
    name: "slow readers",
    args: ["-X", "-c", "900", "-r", "300", "-l", "30", "-w", "1", "-y", "2"],
    end: "Hit test time limit",
  },
]

/** Requests a list until `isOver` returns true. Returns the first wrong response. */
const requestUntil = async ({ key, origin }: JudgedService, isOver: () => boolean): Promise<string | undefined> => {
  while (!isOver()) {
    const response = await fetch(`${origin}/v1/news?limit=1`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(maxDurationMillis),
    }).catch(String)
    const problem = typeof response === "string" ? response : response.ok ? undefined : `status ${response.status}`
    if (typeof response !== "string") await response.arrayBuffer()
    if (problem !== undefined) return problem
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return undefined
}

/** Runs an attack while another client sends requests. Returns what went wrong. */
const runAttack = async ({ args, end, name }: Attack, target: JudgedService) => {
  let isOver = false
  // The tool waits in a busy loop, so it runs at the lowest priority.
  const run = runProgram("nice", [
    "-n",
    "19",
    "slowhttptest",
    ...args,
    "-i",
    "5",
    "-u",
    `${target.origin}/v1/news?limit=100`,
  ])
    .finally(() => {
      isOver = true
    })
  const [problem, { output }] = await Promise.all([requestUntil(target, () => isOver), run])
  return [
    ...(problem === undefined ? [] : [`${name}: another client got no response: ${problem}`]),
    ...(output.includes(end) ? [] : [`${name}: the attack did not end with "${end}":\n${output.slice(-1500)}`]),
  ]
}

/** Checks that slow clients do not delay other clients. */
export const slowhttptest: Judge = {
  name: "slowhttptest",
  programs: ["slowhttptest", "nice"],
  run: async (target) => {
    const findings: Array<string> = []
    for (const one of target.isFull ? [attack, ...fullAttacks] : [attack]) {
      findings.push(...await runAttack(one, target))
    }
    return findings
  },
}
