package bundle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A file that changes after it was verified ends the reading before anything of it is handed out.
func TestRedTeam_FileThatChangesLaterIsNotRead(t *testing.T) {
	t.Parallel()
	var all []bundle.Entry
	for seq := range uint64(200) {
		e := sample(sluice.DepthFull, seq)[1]
		e.Event.Data = bytes.Repeat([]byte("z"), 64<<10)
		all = append(all, e)
	}
	all[150].Event.Data = append(all[150].Event.Data, 'z')
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		good   int // entries before the change
	}{
		"a byte of the first file": {func(t *testing.T, dir string) { t.Helper(); flip(t, dir+"/entries-00001.ndjson") }, 0},
		"a byte of the second":     {func(t *testing.T, dir string) { t.Helper(); flip(t, dir+"/entries-00002.ndjson") }, 127},
		"the file is gone":         {func(t *testing.T, dir string) { t.Helper(); require.NoError(t, os.Remove(dir+"/entries-00002.ndjson")) }, 127},
		"the file is exchanged for another one of the bundle": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir+"/entries-00001.ndjson", dir+"/entries-00002.ndjson"))
		}, 0},
		"the file is a link to the verified one": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Rename(dir+"/entries-00002.ndjson", dir+"/moved"))
			require.NoError(t, os.Symlink("moved", dir+"/entries-00002.ndjson"))
		}, 127},
		"a byte of the data": {func(t *testing.T, dir string) {
			t.Helper()
			data, err := filepath.Glob(dir + "/data/*")
			require.NoError(t, err)
			flip(t, data[0])
		}, 150},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 0, 500), all)
			c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
			require.NoError(t, err)
			tt.change(t, dir)
			read := 0
			for e, err := range c.Entries(t.Context(), 0) {
				if err != nil {
					require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
					require.Equal(t, tt.good, read)
					return
				}
				require.Equal(t, all[read], e)
				read++
			}
			require.Fail(t, "the change went unnoticed")
		})
	}
}

func flip(tb testing.TB, path string) {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	text[len(text)/2] ^= 1
	put(tb, path, string(text))
}
