package terminal

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion_IsTheReleaseOrTheCommit(t *testing.T) {
	t.Parallel()
	const commit = "7cfa923a0f8f1e0e9d8c7b6a5f4e3d2c1b0a9f8e"
	of := func(main string, settings ...debug.BuildSetting) string {
		return versionOf(&debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings})
	}
	revision, clean, dirty := debug.BuildSetting{Key: "vcs.revision", Value: commit}, debug.BuildSetting{Key: "vcs.modified", Value: "false"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	require.Equal(t, "v1.2.3", of("v1.2.3", revision, clean))
	require.Equal(t, commit, of("(devel)", revision, clean))
	require.Equal(t, commit+"+dirty", of("", revision, dirty))
	require.Equal(t, "(devel)", of("(devel)"))
}
