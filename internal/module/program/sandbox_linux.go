package program

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict takes from the calling thread, and from the processes that it starts, what a program does not need: more
// rights by set-user-ID files, files outside of its own, and the network. What the kernel does not have is left out
// (InForce says what it has).
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
	if p.Network {
		return nil
	}
	return denyNetwork()
}

// become makes the calling thread, and no other, one of a user. The functions of package syscall would change all threads.
func become(as User) error {
	uid, gid := uintptr(as.UID), uintptr(as.GID)
	for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return fmt.Errorf("become user %d: %w", as.UID, errno)
		}
	}
	return nil
}

// Rights of Landlock, version 1.
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

// landlock returns the version of Landlock that the kernel has; 0: none.
func landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// confine permits the calling thread no files but the system's, the module's and the temporary ones.
func confine(p Program) error {
	if landlock() == 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	rules := int(fd)
	defer func() { _ = unix.Close(rules) }() // it is in force
	for path, access := range system() {
		if err := permit(rules, path, access); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
	}
	if err := permit(rules, p.Dir, mayRun); err != nil {
		return fmt.Errorf("landlock: %s: %w", p.Dir, err)
	}
	if p.Temp != "" {
		if err := permit(rules, p.Temp, mayWrite); err != nil {
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
	defer func() { _ = unix.Close(fd) }()                                                                                                              // the rule has it
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}                                                                 //nolint:gosec // a descriptor
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return errno
	}
	return nil
}

// denyNetwork lets the calling thread make no sockets but those of this machine's own (AF_UNIX), by a filter on system
// calls. Other ways into the kernel that could make some (io_uring) are refused, too.
func denyNetwork() error {
	const (
		data     = 16 // of the first argument in struct seccomp_data
		refuse   = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
		wrong    = unix.SECCOMP_RET_KILL_PROCESS // a call of another architecture, which has other numbers
		load     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jump     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		jumpOver = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer   = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: 4}, // the architecture
		{Code: jump, Jt: 1, K: auditArch},
		{Code: answer, K: wrong},
		{Code: load, K: 0},                  // the number of the call
		{Code: jumpOver, Jt: 5, K: 1 << 30}, // x32: other numbers for the same calls
		{Code: jump, Jt: 4, K: unix.SYS_IO_URING_SETUP},
		{Code: jump, Jf: 2, K: unix.SYS_SOCKET},
		{Code: load, K: data},
		{Code: jump, Jf: 1, K: unix.AF_UNIX},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: refuse},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}                                           //nolint:gosec // a dozen
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the kernel reads it
	if errno != 0 && errno != unix.ENOSYS && errno != unix.EINVAL {                                                   // the kernel has no filters
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// InForce returns which restrictions the kernel enforces here.
func InForce() []string {
	all := []string{"process group", "resource limits", "no_new_privs"}
	if landlock() > 0 {
		all = append(all, "files (Landlock)")
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno == 0 { //nolint:gosec // the kernel reads it
		all = append(all, "network (seccomp)")
	}
	return all
}
