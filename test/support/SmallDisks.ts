/** Mounts small disks that tests can fill up. Requires root. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"

/** The size of each disk, in bytes. */
export const smallDiskSize = 16 << 20

/** Mounts a disk on the folder, owned by the given user. Returns whether this succeeded. */
export const mountSmallDisk = (folder: string, uid = 0) => {
  const options = `size=${smallDiskSize},mode=0700,uid=${uid},gid=${uid}`
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status === 0
}

/** Unmounts the disk on the folder. */
export const unmountSmallDisk = (folder: string) => spawnSync("umount", [folder])

/** Whether this process is allowed to mount disks. */
export const mayMount = (() => {
  const folder = mkdtempSync(`${tmpdir()}/tickerline-mount-`)
  const may = mountSmallDisk(folder)
  if (may) unmountSmallDisk(folder)
  rmdirSync(folder)
  return may
})()
