package program

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied returns system calls that no program needs, and with which it could escape its
// restrictions or attack more of the kernel: io_uring, which can make sockets, access to the memory
// and descriptors of other processes, namespaces, keys, and the administration of the machine.
func denied() []uint32 {
	return []uint32{
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	}
}

// selfOnly returns system calls that change a process, which is the first argument. With another one
// than the caller, which is 0, a program could have the server killed by a limit, or slow it down.
func selfOnly() []uint32 {
	return []uint32{
		unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	}
}

// ofUser returns system calls that set a priority, with the value of the first argument that stands
// for all processes of a user. The second argument is a process, a group or a user; 0 is the
// caller's.
func ofUser() map[uint32]uint32 {
	const setPriority, setIOPriority = unix.PRIO_USER, 3 // IOPRIO_WHO_USER
	return map[uint32]uint32{unix.SYS_SETPRIORITY: setPriority, unix.SYS_IOPRIO_SET: setIOPriority}
}

const (
	first  = 16 // offsets of arguments in struct seccomp_data; the lower half, which has the whole value of an int
	second = 24
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	answer = unix.BPF_RET | unix.BPF_K
)

// sparingOthers returns the part of a filter that denies the calls of selfOnly and ofUser for other
// processes than the caller and its group. The number of the call is loaded.
func sparingOthers() (filter []unix.SockFilter) {
	for _, call := range selfOnly() {
		filter = append(filter,
			unix.SockFilter{Code: equal, Jf: 4, K: call},
			unix.SockFilter{Code: load, K: first},
			unix.SockFilter{Code: equal, Jt: 1, K: 0},
			unix.SockFilter{Code: answer, K: refuse},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		)
	}
	for call, user := range ofUser() {
		filter = append(filter,
			unix.SockFilter{Code: equal, Jf: 6, K: call},
			unix.SockFilter{Code: load, K: second},
			unix.SockFilter{Code: equal, Jf: 2, K: 0},
			unix.SockFilter{Code: load, K: first},
			unix.SockFilter{Code: equal, Jf: 1, K: user},
			unix.SockFilter{Code: answer, K: refuse},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		)
	}
	return filter
}

// filterCalls denies some system calls to the calling thread and the processes that it starts.
// Without the network, it also denies all sockets except socket pairs, which are connected only to
// each other.
func filterCalls(network bool) error { //nolint:revive // network is a fact
	const (
		number = 0                                            // offsets in struct seccomp_data
		arch   = 4                                            //
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS) // makes libraries use clone: the filter cannot see the flags of clone3
		closed = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
		wrong  = unix.SECCOMP_RET_KILL_PROCESS // for another architecture, whose calls have other numbers
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		anyBit = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equal, Jt: 1, K: auditArch},
		{Code: answer, K: wrong},
		{Code: load, K: number},
		{Code: least, Jf: 1, K: 1 << 30}, // x32: other numbers for the same calls
		{Code: answer, K: refuse},
	}
	calls := map[uint32]uint32{unix.SYS_CLONE3: absent}
	for _, call := range denied() {
		calls[call] = refuse
	}
	if !network {
		calls[unix.SYS_SOCKET] = closed
	}
	for call, with := range calls {
		filter = append(filter, unix.SockFilter{Code: equal, Jf: 1, K: call}, unix.SockFilter{Code: answer, K: with})
	}
	filter = append(append(filter, sparingOthers()...),
		// Deny ptrace, except the request of a new process to be traced by its parent, which start
		// and letGo need.
		unix.SockFilter{Code: equal, Jf: 5, K: unix.SYS_PTRACE},
		unix.SockFilter{Code: load, K: first},
		unix.SockFilter{Code: equal, Jt: 2, K: unix.PTRACE_TRACEME},
		unix.SockFilter{Code: equal, Jt: 1, K: unix.PTRACE_DETACH},
		unix.SockFilter{Code: answer, K: refuse},
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: equal, Jf: 3, K: unix.SYS_CLONE},
		unix.SockFilter{Code: load, K: first},
		unix.SockFilter{Code: anyBit, Jf: 1, K: unix.CLONE_NEWUSER},
		unix.SockFilter{Code: answer, K: refuse},
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}                                           //nolint:gosec // some dozens
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the kernel reads it
	if errno != 0 && errno != unix.ENOSYS && errno != unix.EINVAL {                                                   // the kernel has no filters
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
