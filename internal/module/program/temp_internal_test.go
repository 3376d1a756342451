//go:build linux

package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// looked returns the limit that a directory exceeds.
func looked(dir string, l Limits) string {
	is, _ := (&Runner{}).look(Program{Temp: dir, Limits: l, Mark: MarkName + "=" + dir}, os.Getpid(), make(chan struct{}))
	return is.limit
}

// fills writes files of a size into a directory.
func fills(t *testing.T, dir string, n, size int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), make([]byte, size), 0o600))
	}
}

func TestLook_CountsFilesAndSpace(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	fills(t, dir, 10, 64<<10)
	fills(t, filepath.Join(dir, "a/b"), 10, 64<<10)
	fills(t, other, 100, 64<<10)
	for _, link := range []string{other, "/", "missing"} {
		require.NoError(t, os.Symlink(link, filepath.Join(dir, "to-"+filepath.Base(link))))
	}
	for i := range 20 {
		require.NoError(t, os.Link(filepath.Join(dir, "0"), filepath.Join(dir, fmt.Sprint("again", i))))
	}
	const files = 10 + 2 + 10 + 3 + 20
	require.Empty(t, looked(dir, Limits{TempFiles: files, TempSize: 3 << 19}), "it follows no links, and counts a file with several names once")
	require.Equal(t, fmt.Sprintf("has more than %d files", files-1), looked(dir, Limits{TempFiles: files - 1}))
	require.Equal(t, "has more than 1 MiB", looked(dir, Limits{TempSize: 1 << 20}))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", maxDepth+1)), 0o755))
	require.Equal(t, "has directories in more than 100 levels", looked(dir, Limits{TempFiles: 1000}))
	sparse := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	require.NoError(t, os.Truncate(sparse, 1<<30))
	require.Empty(t, looked(filepath.Dir(sparse), Limits{TempSize: 1 << 20}), "it takes no space")
}

// A program cannot keep its server out of its temporary directory, which has the same user.
func TestRemoveTemp_OpensClosedDirectories(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "temp")
	fills(t, filepath.Join(dir, "a/b/c"), 10, 1)
	as := User{UID: 64_124, GID: 64_124}
	if os.Geteuid() == 0 { // to whom nothing is closed
		above := filepath.Dir(filepath.Dir(dir))
		require.NoError(t, os.Chmod(above, 0o755))
		require.NoError(t, filepath.WalkDir(filepath.Dir(dir), func(path string, _ os.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Chown(path, int(as.UID), int(as.GID))
		}))
	}
	for _, closed := range []string{"a/b", "a", "."} {
		require.NoError(t, os.Chmod(filepath.Join(dir, closed), 0o500))
	}
	require.NoError(t, os.Chmod(dir, 0))
	limit, err := "", make(chan error, 1)
	go onOwnThread(func() {
		if os.Geteuid() == 0 {
			if failed := become(as); failed != nil {
				err <- failed
				return
			}
		}
		limit = looked(dir, Limits{TempFiles: 12})
		err <- RemoveTemp(dir)
	})
	require.NoError(t, <-err)
	require.Equal(t, "has more than 12 files", limit)
	require.NoDirExists(t, dir)
}
