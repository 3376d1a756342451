package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Modules that do not run, and restrictions that matter and are missing, are warnings with the remedy.
func TestDoctor_WarnsOfModulesAndRestrictions(t *testing.T) {
	t.Parallel()
	host := sluice.ModuleHost{User: "modules", Restrictions: []string{"process group"}, Missing: []string{"control group"}}
	root := host
	root.Problem = "programs run as root: set modules.user"
	well := []sluice.Module{{Name: "a", State: sluice.ModuleApproved}, {Name: "b", State: sluice.ModuleDisabled}, {Name: "c", State: sluice.ModuleFound}}
	ill := append(well[:3:3], sluice.Module{Name: "d", State: sluice.ModuleChanged}, sluice.Module{Name: "e", State: sluice.ModuleUnsafe})
	for _, c := range []struct {
		list sluice.ModuleList
		want []finding
	}{
		{sluice.ModuleList{Host: &host, Modules: well}, []finding{
			{"modules", "ok", "none of 3 is changed, unsafe, invalid or missing; programs run as modules; in force: process group; missing: control group"},
		}},
		{sluice.ModuleList{Host: &root, Modules: ill}, []finding{
			{"modules", "warn", "2 of 5: d (changed), e (unsafe); see sluice module show NAME"},
			{"modules", "warn", root.Problem},
		}},
	} {
		var e examination
		e.noteModules(&c.list)
		require.Equal(t, c.want, e.findings)
	}
}
