package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A missing restriction is told with the remedy if it matters. One that few kernels have is no problem.
func TestInForce_ProblemHasItsRemedy(t *testing.T) {
	t.Parallel()
	minor := []string{"signals (Landlock)", "control group", "memory in sum (cgroup)", "processes (cgroup)"}
	for _, c := range []struct {
		missing []string
		root    bool
		want    []string // parts
	}{
		{nil, false, nil},
		{minor, false, nil},
		{minor, true, []string{"programs run as root: set modules.user"}},
		{[]string{program.LandlockFiles}, false, []string{"no Landlock; use Linux 5.13"}},
		{[]string{program.SeccompNetwork}, false, []string{"CONFIG_SECCOMP_FILTER"}},
		{[]string{program.LandlockFiles, program.SeccompNetwork}, true, []string{"set modules.user; ", "no Landlock", "; programs can make connections"}},
		{program.Known(), true, []string{"run on Linux only"}},
	} {
		got := problemOf(c.missing, c.root)
		require.Equal(t, c.want == nil, got == "", got)
		for _, part := range c.want {
			require.Contains(t, got, part)
		}
	}
}

// Each known restriction is in force or missing, and a server without directories has none of both.
func TestInForce_ListsEachRestrictionOnce(t *testing.T) {
	t.Parallel()
	require.Nil(t, New(Options{}).InForce())
	h := New(Options{Dirs: []string{t.TempDir()}, User: &program.User{Name: "modules"}})
	h.restrictions = []string{"process group", "control group"}
	is := h.InForce()
	require.ElementsMatch(t, program.Known(), append(is.Restrictions, is.Missing...))
	is.Missing = is.Missing[:1]
	require.Equal(t, "programs run as modules; in force: process group, control group; missing: resource limits", is.String())
	require.Equal(t, "programs run as a; in force: nothing", (&sluice.ModuleHost{User: "a"}).String())
}
