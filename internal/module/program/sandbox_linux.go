package program

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict removes rights that a program does not need from the calling thread and the processes
// that it starts: rights from set-user-ID files, access to other files, and the network. It skips
// restrictions that the kernel does not support (see InForce). It cannot be undone, so the thread
// must end with the program. The order matters: Landlock needs no_new_privs, and the filter of
// system calls comes last.
func restrict(p Program, as *User) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := confine(p); err != nil {
		return err
	}
	if as != nil {
		if err := become(*as); err != nil {
			return err
		}
	}
	return filterCalls(p.Network)
}

// become changes the user of the calling thread only. The functions of package syscall would change
// all threads.
func become(as User) error {
	uid, gid := uintptr(as.UID), uintptr(as.GID)
	for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return fmt.Errorf("become user %d: %w", as.UID, errno)
		}
	}
	return nil
}

// Rights of Landlock, version 1; those of later versions are added where the kernel has them.
const (
	mayRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayRun   = mayRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	mayWrite = mayRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	handled = mayRun | mayWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	mayUse  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE // a device
)

// system returns the paths that programs, interpreters and libraries need, with the rights to them.
func system() map[string]uint64 {
	return map[string]uint64{
		"/usr": mayRun, "/bin": mayRun, "/sbin": mayRun, "/lib": mayRun, "/lib32": mayRun, "/lib64": mayRun, "/opt": mayRun, "/nix/store": mayRun,
		"/etc": mayRead, "/sys/fs/cgroup": mayRead, "/sys/devices/system/cpu": mayRead, "/run/systemd/resolve": mayRead,
		"/dev/null": mayUse, "/dev/zero": mayUse, "/dev/full": mayUse, "/dev/random": mayUse, "/dev/urandom": mayUse, "/dev/tty": mayUse,
	}
}

// landlock returns the version of Landlock that the kernel supports; 0: none.
func landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// rulesOf returns the restrictions that a version of Landlock can enforce and the size of their
// structure. Later are the rights to a writable directory that versions after 1 have added.
func rulesOf(version int) (attr unix.LandlockRulesetAttr, size uintptr, later uint64) {
	attr, size = unix.LandlockRulesetAttr{Handled_access_fs: handled}, unsafe.Sizeof(attr.Handled_access_fs)
	if version >= 2 {
		later |= unix.LANDLOCK_ACCESS_FS_REFER // rename between directories
	}
	if version >= 3 {
		later |= unix.LANDLOCK_ACCESS_FS_TRUNCATE // without it any file of the user can be emptied
	}
	attr.Handled_access_fs |= later
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		size = unsafe.Offsetof(attr.Quiet_access_fs)
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		if scopesSignals(version) {
			attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	return attr, size, later
}

// scopesSignals reports whether Landlock can restrict the signals of a program to its own
// processes. Kernels without the fix of erratum 2 would also keep the thread that starts the
// program from signalling the server's other threads, which the Go runtime needs.
func scopesSignals(version int) bool {
	const threadsExcepted = 1 << 1 // erratum 2
	if version < 6 {
		return false
	}
	errata, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return errno == 0 && errata&threadsExcepted != 0
}

// confine restricts the calling thread to the files of the system, the module and the temporary
// directory. The temporary directory is writable and not executable: a program cannot run a file
// that it has made.
func confine(p Program) error {
	if landlock() == 0 {
		return nil
	}
	attr, size, later := rulesOf(landlock())
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	rules := int(fd)
	defer func() { _ = unix.Close(rules) }() // the rules are in force
	for path, access := range system() {
		if err := permit(rules, path, access); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
	}
	if err := permit(rules, p.Dir, mayRun); err != nil {
		return fmt.Errorf("landlock: %s: %w", p.Dir, err)
	}
	if p.Temp != "" {
		if err := permit(rules, p.Temp, mayWrite|later); err != nil {
			return fmt.Errorf("landlock: %s: %w", p.Temp, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

func permit(rules int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err //nolint:wrapcheck // the caller names the path
	}
	defer func() { _ = unix.Close(fd) }()                                                                                                              // the rule holds the directory
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}                                                                 //nolint:gosec // a descriptor
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return errno
	}
	return nil
}

// InForce returns the restrictions that the kernel of this machine enforces.
func InForce() []string {
	all := []string{processGroup, resourceLimits, noNewPrivs}
	if traces() {
		all = append(all, limitsAtStart)
	}
	if landlock() > 0 {
		all = append(all, LandlockFiles)
	}
	if scopesSignals(landlock()) {
		all = append(all, landlockSignals)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno == 0 { //nolint:gosec // the kernel reads it
		all = append(all, SeccompNetwork, seccompCalls)
	}
	return all
}
