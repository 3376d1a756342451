package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lookPause = 100 * time.Millisecond // between two checks of a temporary directory
	lookIdle  = time.Second            // maximum pause, while nothing changes in it
	lookRest  = 20                     // minimum pause, in multiples of the duration of a check
	lookBatch = 256                    // names that are read at once
	maxDepth  = 100                    // levels of directories in it
	blockSize = 512                    // unit of the space that a file takes (stat(2))
)

// errOver means that the program ended during a check.
var errOver = errors.New("the program has ended")

// watchTemp kills a program when its temporary directory exceeds its limits. It checks the
// directory from time to time, so the limits may be exceeded between two checks. The caller calls
// the returned function once the program has ended; it returns the exceeded limit, "" if there is
// none.
func (r *Runner) watchTemp(p Program, pid int, over <-chan struct{}, kill func()) (exceeded func() string) {
	if p.Temp == "" || p.Limits.TempSize == 0 && p.Limits.TempFiles == 0 {
		return func() string { return "" }
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		next, last, pause := time.NewTimer(lookPause), seen{}, lookPause
		defer next.Stop()
		for {
			select {
			case <-over:
				return
			case <-next.C:
			}
			is, took := r.look(p, pid, over)
			if is.limit != "" {
				found <- is.limit
				kill()
				return
			}
			if pause = min(2*pause, lookIdle); is != last {
				pause = lookPause
			}
			last = is
			next.Reset(max(pause, lookRest*took))
		}
	}()
	return func() string { return <-found }
}

// seen is the result of a check of a temporary directory.
type seen struct {
	size, files uint64
	limit       string // exceeded limit; "": none
}

// look checks the temporary directory of a program. Only one check runs at a time.
func (r *Runner) look(p Program, pid int, over <-chan struct{}) (is seen, took time.Duration) {
	r.looks.Lock()
	defer r.looks.Unlock()
	began := time.Now()
	use := usage{limits: p.Limits, over: over}
	fd, err := openDir(unix.AT_FDCWD, p.Temp)
	if err == nil {
		dir, unknown := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		err = use.add(fd, 0)
		if err == nil && unknown == nil {
			err = use.addRemoved(dir, processesOf(pid, p.Mark))
		}
	}
	is = seen{size: use.size, files: use.files}
	if full, ok := errors.AsType[*fullError](err); ok { // other errors, such as too many open files of this process, are temporary
		is.limit = full.limit
	}
	return is, time.Since(began)
}

// fullError says which limit a directory exceeds.
type fullError struct{ limit string }

// Error returns the limit.
func (e *fullError) Error() string { return e.limit }

// usage sums up the space and the files of a directory.
type usage struct {
	limits Limits
	over   <-chan struct{}

	size, files uint64
}

// add adds the contents of a directory, whose descriptor it closes. It follows no links, and counts
// a file with several hard links once. The error is a *fullError once a limit is exceeded.
func (u *usage) add(fd, depth int) error {
	dir := os.NewFile(uintptr(fd), "temporary directory")
	defer func() { _ = dir.Close() }() // it was only read
	if depth > maxDepth {
		return &fullError{fmt.Sprintf("has directories in more than %d levels", maxDepth)}
	}
	for {
		select {
		case <-u.over:
			return errOver
		default:
		}
		names, err := dir.Readdirnames(lookBatch)
		for _, name := range names {
			if err := u.addFile(fd, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // it names the directory
		}
	}
}

func (u *usage) addFile(dir int, name string, depth int) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreGone(err)
	}
	if err := u.count(&stat); err != nil || !isDir(&stat) {
		return err
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return ignoreGone(err)
	}
	return u.add(fd, depth+1)
}

func isDir(stat *unix.Stat_t) bool { return stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// count adds a file.
func (u *usage) count(stat *unix.Stat_t) error {
	size := uint64(stat.Blocks) * blockSize //nolint:gosec // not negative
	if !isDir(stat) && stat.Nlink > 1 {
		size /= uint64(stat.Nlink) //nolint:unconvert,nolintlint // of another width on arm64
	}
	u.size, u.files = u.size+size, u.files+1
	switch most := u.limits; {
	case most.TempFiles > 0 && u.files > most.TempFiles:
		return &fullError{fmt.Sprintf("has more than %d files", most.TempFiles)}
	case most.TempSize > 0 && u.size > most.TempSize:
		return &fullError{fmt.Sprintf("has more than %d MiB", most.TempSize>>20)}
	}
	return nil
}

// addRemoved adds the files of a directory that processes have removed but keep open, as far as
// this process may see them.
func (u *usage) addRemoved(dir string, pids []int) error {
	seen := map[uint64]bool{}
	for _, pid := range pids {
		open := fmt.Sprintf("/proc/%d/fd/", pid)
		files, _ := os.ReadDir(open) // it may have ended
		for _, file := range files {
			path, err := os.Readlink(open + file.Name())
			if err != nil || !strings.HasPrefix(path, dir+"/") {
				continue
			}
			var stat unix.Stat_t
			if err := unix.Stat(open+file.Name(), &stat); err != nil || stat.Nlink > 0 || seen[stat.Ino] {
				continue
			}
			seen[stat.Ino] = true
			if err := u.count(&stat); err != nil {
				return err
			}
		}
	}
	return nil
}

// processesOf returns the processes of a program: its first one, the descendants of that, and
// orphans with the program's mark.
func processesOf(pid int, mark string) []int {
	all := append(descendants(pid), pid)
	for _, orphan := range children() {
		if has, err := hasVariable(fmt.Sprintf("/proc/%d/environ", orphan), mark); err == nil && has {
			all = append(append(all, orphan), descendants(orphan)...)
		}
	}
	return all
}

// ignoreGone returns nil for the errors of a file that was removed or replaced meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// openDir opens a directory, even one that its program has made unreadable.
func openDir(dir int, name string) (fd int, err error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Openat(dir, name, unix.O_RDONLY|flags, 0)
	if !errors.Is(err, unix.EACCES) {
		return fd, err //nolint:wrapcheck // a system call
	}
	place, err := unix.Openat(dir, name, unix.O_PATH|flags, 0)
	if err != nil {
		return -1, err //nolint:wrapcheck // a system call
	}
	defer func() { _ = unix.Close(place) }() // it was not read
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", place), 0o700); err != nil {
		return -1, err //nolint:wrapcheck // a system call
	}
	return unix.Openat(dir, name, unix.O_RDONLY|flags, 0) //nolint:wrapcheck // a system call
}

// RemoveTemp removes the temporary directory of a program that has ended, including files in
// directories that the program has made inaccessible.
func RemoveTemp(dir string) error {
	left := os.RemoveAll(dir)
	if !errors.Is(left, unix.EACCES) {
		return left //nolint:wrapcheck // it names the file
	}
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err == nil {
		err = reopen(fd)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// reopen makes a directory, whose descriptor it closes, and all directories in it readable and
// writable for their owner.
func reopen(fd int) error {
	dir := os.NewFile(uintptr(fd), "temporary directory")
	defer func() { _ = dir.Close() }() // it was only read
	if err := dir.Chmod(0o700); err != nil {
		return err //nolint:wrapcheck // it names the directory
	}
	files, err := dir.ReadDir(-1)
	for _, file := range files {
		if !file.IsDir() {
			continue
		}
		below, failed := openDir(fd, file.Name())
		if failed == nil {
			failed = reopen(below)
		}
		err = errors.Join(err, ignoreGone(failed))
	}
	return err
}
