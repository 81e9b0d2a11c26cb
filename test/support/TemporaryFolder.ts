/**
 * Chooses the folder for databases and other temporary test files. The folder is in memory if the machine has enough.
 */
import { spawnSync } from "node:child_process"
import { accessSync, constants, rmSync, statfsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"

const memoryFolder = "/dev/shm"
const requiredBytes = 4 * 1024 ** 3

/**
 * Returns whether `/dev/shm` is usable. Containers often limit it to 64 MB, or do not allow executing programs in it.
 */
const isSuitable = () => {
  const probe = `${memoryFolder}/tickerline-probe-${process.pid}`
  try {
    accessSync(memoryFolder, constants.W_OK)
    const { bavail, bsize } = statfsSync(memoryFolder)
    if (bavail * bsize < requiredBytes) return false
    writeFileSync(probe, "#!/bin/sh\n", { mode: 0o755 })
    return spawnSync(probe).status === 0
  } catch {
    return false
  } finally {
    rmSync(probe, { force: true })
  }
}

/** Returns `TMPDIR` if it is set, an in-memory folder if one is usable, and otherwise the system's temporary folder. */
export const chooseTemporaryFolder = () => process.env["TMPDIR"] ?? (isSuitable() ? memoryFolder : tmpdir())
