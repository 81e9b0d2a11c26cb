/** Where tests keep their databases and other temporary files: in memory, if this machine has enough of it. */
import { spawnSync } from "node:child_process"
import { accessSync, constants, rmSync, statfsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"

const memory = "/dev/shm"
const requiredBytes = 4 * 1024 ** 3

/** Containers often give it 64 MB, or do not allow it to hold programs. */
const isSuitable = () => {
  const probe = `${memory}/tickerline-probe-${process.pid}`
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    if (bavail * bsize < requiredBytes) return false
    writeFileSync(probe, "#!/bin/sh\n", { mode: 0o755 })
    return spawnSync(probe).status === 0
  } catch {
    return false
  } finally {
    rmSync(probe, { force: true })
  }
}

/** `TMPDIR` wins, then memory, then the system's folder. */
export const chooseTemporaryFolder = () => process.env["TMPDIR"] ?? (isSuitable() ? memory : tmpdir())
