/** Mounts small disks, which tests fill. This requires root. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"

/** Size of a disk, in bytes. */
export const smallDiskSize = 16 << 20

/** Mounts a disk on the folder, for this user. Returns whether that succeeded. */
export const mountSmallDisk = (folder: string, uid = 0) => {
  const options = `size=${smallDiskSize},mode=0700,uid=${uid},gid=${uid}`
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status === 0
}

export const unmountSmallDisk = (folder: string) => spawnSync("umount", [folder])

export const mayMount = (() => {
  const folder = mkdtempSync(`${tmpdir()}/tickerline-mount-`)
  const may = mountSmallDisk(folder)
  if (may) unmountSmallDisk(folder)
  rmdirSync(folder)
  return may
})()
